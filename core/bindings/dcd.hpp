// What the kinds of dual coordinate descent share: all rows here, a part of them, rows that pass
// by.
#pragma once

#include "bindings.hpp"

#include "linear/dcd/descent.hpp"

#include <optional>

namespace bridle {

// Compiled once, in dcd_steps.cpp and dcd.cpp: the other files only call it.
#define BRIDLE_EACH_ROWS(DO)                                                                       \
  DO(CsrRows<float, int32_t>)                                                                      \
  DO(CsrRows<float, int64_t>)                                                                      \
  DO(CsrRows<double, int32_t>)                                                                     \
  DO(CsrRows<double, int64_t>)                                                                     \
  DO(DenseRows<float>)                                                                             \
  DO(DenseRows<double>)
#define BRIDLE_ELSEWHERE(...)                                                                      \
  extern template StepsOf<__VA_ARGS__> steps_by<__VA_ARGS__>(const AnyLoss &);                     \
  extern template class ResidentRows<__VA_ARGS__>;                                                 \
  extern template class BlockVisits<__VA_ARGS__>;                                                  \
  extern template class DcdOn<__VA_ARGS__>;
BRIDLE_EACH_ROWS(BRIDLE_ELSEWHERE)

using Targets = std::optional<Vector<double>>;

// Of the kind of the rows, with the steps of the loss.
template <class Descent, template <RowsLike> class On, class... Arguments>
std::unique_ptr<Descent> make_descent(const PyRows &rows, const PyLoss &loss,
                                      const Arguments &...arguments) {
  const nb::gil_scoped_release release;
  return std::visit(
      [&](const auto &r) -> std::unique_ptr<Descent> {
        using Rows = std::decay_t<decltype(r)>;
        return std::make_unique<On<Rows>>(r, steps_by<Rows>(loss_from(loss)), arguments...);
      },
      rows.view());
}

inline void check_blocks(int64_t n_blocks) {
  expect_between(n_blocks, 1, 1 << 16, "n_blocks"); // each has a copy of the weights
}

inline void check_share(double share) {
  if (!(share > 0 && share <= 1))
    throw nb::value_error("share must be more than 0 and at most 1");
}

template <class Descent> void write_alpha(const Descent &d, MutableVector<double> out) {
  expect_size(out, d.n_rows, "out");
  const nb::gil_scoped_release release;
  d.alpha(out.data());
}

template <class Descent> void write_weights(const Descent &d, MutableVector<double> out) {
  expect_size(out, d.n_weights, "out");
  const nb::gil_scoped_release release;
  d.weights(out.data());
}

void bind_dcd_part(nb::module_ &steps);
void bind_streamed_dcd(nb::module_ &steps);

} // namespace bridle
