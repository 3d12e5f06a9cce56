// What the kinds of dual coordinate descent share: all rows here, a part of them, rows that pass
// by.
#pragma once

#include "bindings.hpp"

#include <optional>

namespace bridle {

using Targets = std::optional<Vector<double>>;

inline void check_blocks(int64_t n_blocks) {
  expect_between(n_blocks, 1, 1 << 16, "n_blocks"); // each has a copy of the weights
}

inline void check_share(double share) {
  if (!(share > 0 && share <= 1))
    throw nb::value_error("share must be more than 0 and at most 1");
}

template <class Descent> void write_alpha(const Descent &d, MutableVector<double> out) {
  expect_size(out, d.n_rows, "out");
  d.alpha(out.data());
}

template <class Descent> void write_weights(const Descent &d, MutableVector<double> out) {
  expect_size(out, d.n_weights, "out");
  d.weights(out.data());
}

void bind_dcd_part(nb::module_ &steps);
void bind_streamed_dcd(nb::module_ &steps);

} // namespace bridle
