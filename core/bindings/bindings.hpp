// What the binding files share: array types and the rows as Python sees them.
#pragma once

#include "base/memory.hpp"
#include "base/rng.hpp"
#include "linear/row_sides.hpp"
#include "losses.hpp"
#include "rows/judge.hpp"
#include "rows/passes.hpp"
#include "rows/views.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nb = nanobind;

namespace bridle {

template <class T> using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using MutableVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// What any thread may find out and set for all. (Not std::atomic_ref, which libc++ has had
// since 19.)
class KnownFlag {
public:
  KnownFlag() = default;
  KnownFlag(const KnownFlag &other) : known_(other.get()) {}

  bool get() const { return known_.load(std::memory_order_relaxed); }
  void set() const { known_.store(true, std::memory_order_relaxed); }

private:
  mutable std::atomic<bool> known_ = false;
};

// A view and the Python objects whose memory it reads.
class PyRows {
public:
  PyRows(AnyRows view, nb::object owner) : view_(std::move(view)), owner_(std::move(owner)) {}

  // For passes and steps, which write where the columns say: they are looked at once, unless a
  // scan of the rows has done so.
  const AnyRows &view() const {
    if (!columns_known_.get()) {
      check_columns(view_);
      know_columns();
    }
    return view_;
  }
  const AnyRows &unchecked() const { return view_; }
  void know_columns(bool in_order = false) const {
    if (in_order)
      columns_in_order_.set();
    columns_known_.set();
  }
  // Of each row; false where no scan has looked.
  bool columns_in_order() const { return columns_in_order_.get(); }

private:
  AnyRows view_;
  nb::object owner_;
  KnownFlag columns_known_, columns_in_order_;
};

inline int64_t n_rows(const PyRows &rows) {
  return std::visit([](const auto &r) { return r.n_rows; }, rows.unchecked());
}
inline int64_t n_weights(const PyRows &rows) {
  return std::visit([](const auto &r) { return r.n_features + 1; }, rows.unchecked());
}

// A loss: the name of its struct, with its numbers if it has any.
using PyLoss = std::variant<std::string, std::pair<std::string, std::vector<double>>>;

inline AnyLoss loss_from(const PyLoss &loss) {
  if (const auto *name = std::get_if<std::string>(&loss))
    return loss_from_name(*name);
  const auto &[name, numbers] = std::get<1>(loss);
  return loss_from_name(name, numbers);
}

// What takes steps on rows of their kind.
template <class Steps, template <RowsLike> class On, class... Arguments>
std::unique_ptr<Steps> make_steps(const PyRows &rows, const Arguments &...arguments) {
  const nb::gil_scoped_release release;
  return std::visit(
      [&](const auto &r) -> std::unique_ptr<Steps> {
        return std::make_unique<On<std::decay_t<decltype(r)>>>(r, arguments...);
      },
      rows.view());
}

// Sizes are checked here, once for every call: a short array would be read past its end.
template <class Array> void expect_size(const Array &array, int64_t size, const char *name) {
  if (static_cast<int64_t>(array.shape(0)) != size)
    throw nb::value_error((std::string(name) + " has " + std::to_string(array.shape(0)) +
                           " entries, expected " + std::to_string(size))
                              .c_str());
}

// Numbers of rows that are worth a thread, for loops that do next to nothing with each.
constexpr int64_t vector_grain = 32768;

// A number for each row, or one for all of them.
using PyPerRow = std::variant<Vector<double>, double>; // in this order: arrays may be numbers, too

inline PerRow per_row(const PyPerRow &given, int64_t n_rows, const char *name) {
  const auto *each = std::get_if<Vector<double>>(&given);
  if (!each)
    return {nullptr, std::get<double>(given)};
  expect_size(*each, n_rows, name);
  return {each->data(), 0.0};
}

// The numbers of rows; their targets may be none.
inline RowSides row_sides(const PyRows &rows, const Vector<double> &signed_cost,
                          const Vector<double> &squared_norms,
                          const std::optional<Vector<double>> &targets) {
  expect_size(signed_cost, n_rows(rows), "signed_cost");
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  if (targets)
    expect_size(*targets, n_rows(rows), "targets");
  return {signed_cost.data(), squared_norms.data(), targets ? targets->data() : nullptr};
}

[[noreturn]] inline void refuse(const std::string &what) { throw nb::value_error(what.c_str()); }

inline void expect_between(int64_t value, int64_t least, int64_t most, const char *name) {
  if (value < least || value > most)
    refuse(std::string(name) + " must be in " + std::to_string(least) + ".." +
           std::to_string(most) + ", got " + std::to_string(value));
}

// Numbers of steps are counted on in 64 bits, and in float64.
constexpr int64_t most_counted = int64_t{1} << 53;

// Of one call, which nothing can interrupt: it must end some time.
inline void expect_steps(int64_t n, const char *name = "n_steps") {
  expect_between(n, 0, int64_t{1} << 32, name);
}

template <class Steps> void checked_run(Steps &steps, int64_t n_steps, Rng &rng) {
  expect_steps(n_steps);
  const nb::gil_scoped_release release;
  steps.run(n_steps, rng);
}

inline void expect_rows(const PyRows &rows) {
  if (n_rows(rows) < 1)
    refuse("there are no rows to take steps on");
}

inline void expect_positive(double value, const char *name) {
  if (!(value > 0 && std::isfinite(value)))
    refuse(std::string(name) + " must be positive and finite, got " + std::to_string(value));
}

template <class Array> void expect_finite(const Array &array, const char *name) {
  const nb::gil_scoped_release release;
  for (size_t k = 0; k < array.size(); ++k)
    if (!std::isfinite(array.data()[k]))
      refuse(std::string(name) + " contain NaN or infinity");
}

// Neighbouring rows that are visited together: more than all rows is all rows.
inline int64_t checked_bucket(int64_t bucket, int64_t n_rows) {
  if (bucket < 1)
    refuse("bucket must be at least 1");
  return std::min(bucket, std::max<int64_t>(1, n_rows));
}

// a b; ValueError where so many numbers would not fit the memory of the machine.
inline int64_t room_for(int64_t a, int64_t b, const char *what) {
  int64_t n = 0;
  if (__builtin_mul_overflow(a, b, &n) ||
      static_cast<double>(n) * sizeof(double) > physical_memory())
    refuse(std::string(what) + " of " + std::to_string(a) + " x " + std::to_string(b) +
           " numbers: more than this machine can hold");
  return n;
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
void bind_vectors(nb::module_ &matrix);
void bind_sums(nb::module_ &sums);
void bind_rows(nb::module_ &rows);
void bind_rng(nb::module_ &steps);
void bind_dcd(nb::module_ &steps);
void bind_dcd_classes(nb::module_ &steps);
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
