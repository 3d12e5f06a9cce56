// What the binding files share: array types and the rows as Python sees them.
#pragma once

#include "losses.hpp"
#include "rows/views.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace bridle {

template <class T> using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using MutableVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A view and the Python objects whose memory it reads.
struct PyRows {
  AnyRows view;
  nb::object owner;
};

inline int64_t n_rows(const PyRows &rows) {
  return std::visit([](const auto &r) { return r.n_rows; }, rows.view);
}
inline int64_t n_weights(const PyRows &rows) {
  return std::visit([](const auto &r) { return r.n_features + 1; }, rows.view);
}

// What takes steps on rows of their kind, by the loss of that name where it has one.
template <class Steps, template <RowsLike> class On, class... Arguments>
std::unique_ptr<Steps> make_steps(const PyRows &rows, const Arguments &...arguments) {
  return std::visit(
      [&](const auto &r) -> std::unique_ptr<Steps> {
        return std::make_unique<On<std::decay_t<decltype(r)>>>(r, arguments...);
      },
      rows.view);
}
template <class Steps, template <RowsLike, LossLike> class On, class... Arguments>
std::unique_ptr<Steps> make_steps_by(const std::string &loss, const PyRows &rows,
                                     const Arguments &...arguments) {
  return std::visit(
      [&](const auto &r, auto l) -> std::unique_ptr<Steps> {
        return std::make_unique<On<std::decay_t<decltype(r)>, decltype(l)>>(r, arguments...);
      },
      rows.view, loss_from_name(loss));
}

// Sizes are checked here, once for every call: a short array would be read past its end.
template <class Array> void expect_size(const Array &array, int64_t size, const char *name) {
  if (static_cast<int64_t>(array.shape(0)) != size)
    throw nb::value_error((std::string(name) + " has " + std::to_string(array.shape(0)) +
                           " entries, expected " + std::to_string(size))
                              .c_str());
}

// The names of a list of types, as Python sees them.
inline nb::tuple to_tuple(const std::vector<std::string> &names) {
  nb::list list;
  for (const std::string &name : names)
    list.append(name);
  return nb::tuple(list);
}

// The array takes the memory over; nothing is copied.
template <class T> nb::object to_numpy(std::vector<T> &&values) {
  auto *owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner));
}

// One file a topic; where several submodules are named, a topic has something for each.
void bind_matrix(nb::module_ &matrix);
void bind_sums(nb::module_ &sums);
void bind_rows(nb::module_ &rows);
void bind_rng(nb::module_ &steps);
void bind_dcd(nb::module_ &steps);
void bind_sgd(nb::module_ &steps);
void bind_sgd_qn(nb::module_ &steps);
void bind_perceptrons(nb::module_ &steps);
void bind_newton(nb::module_ &steps);
void bind_cutting_plane(nb::module_ &steps);
void bind_simplex_qp(nb::module_ &steps);
void bind_kernels(nb::module_ &kernels, nb::module_ &steps);
void bind_svmlight(nb::module_ &text);
void bind_features(nb::module_ &text);
void bind_chain(nb::module_ &structured);
void bind_cky(nb::module_ &structured);
void bind_multilabel(nb::module_ &structured);
void bind_ranking(nb::module_ &structured);

} // namespace bridle
