// One view over the rows of a matrix: CSR or dense, float32 or float64, 32- or 64-bit columns.
// Nothing is copied. Every weight vector has n_features + 1 entries: the last one belongs to the
// constant feature of value `bias` (0 when there is none), so that no pass needs to know of it.
#pragma once

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "rows/simd.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <variant>
#include <vector>

namespace bridle {

// What is to be added to a weight; of the first 2^31.
template <class W> struct Term {
  int32_t feature;
  W value;
};

// Of so many features, w is more than the nearer caches hold, and is asked for beforehand.
constexpr int64_t wide_rows = 1 << 18;

// What passes and steps ask of rows.
template <class R>
concept RowsLike =
    requires(const R &rows, int64_t i, const double *w, double *sum, typename R::Copy &copy) {
      requires std::floating_point<typename R::Value>;
      { rows.n_rows } -> std::convertible_to<int64_t>;
      { rows.n_features } -> std::convertible_to<int64_t>;
      { rows.bias } -> std::convertible_to<double>;
      { rows.nnz() } -> std::same_as<int64_t>;
      { rows.row_nnz(i) } -> std::same_as<int64_t>;
      { rows.dot(i, w) } -> std::same_as<double>; // w . x_i, in the precision of w
      rows.add(i, 1.0, sum);                      // sum += x_i
      rows.for_each(i, [](int64_t, typename R::Value) {});
      rows.prefetch(i);
      rows.prefetch_place(i); // what tells where row i is
      rows.prefetch_weights(i, w);
      // Where the columns are in order, the entries of row i by ranges of features: cuts[m] is the
      // first one of bounds[m] or later; and such entries as {column, scale * value}.
      rows.cut(i, &i, i, &i);
      rows.scaled(i, Range{}, 1.0, static_cast<Term<double> *>(nullptr));
      // Some rows, copied together: those that place(k) tells; and a view of them.
      copy.take(rows, i, [](int64_t k) { return k; }, 1);
      { copy.view(rows) } -> std::same_as<R>;
    };

template <class Value_, class Column_> struct CsrRows {
  using Value = Value_;
  using Column = Column_;

  const int64_t *offsets;
  const Column *columns;
  const Value *values;
  int64_t n_rows;
  int64_t n_features;
  double bias;

  int64_t row_nnz(int64_t i) const { return offsets[i + 1] - offsets[i]; }
  int64_t nnz() const { return offsets[n_rows] - offsets[0]; }

  // w . x_i, accumulated in W.
  template <class W> W dot(int64_t i, const W *w) const {
    const int64_t begin = offsets[i], n = offsets[i + 1] - begin;
    const W constant = static_cast<W>(bias) * w[n_features];
    constexpr bool on_vectors = std::is_same_v<Value, float> && std::is_same_v<Column, int32_t>;
    if constexpr (on_vectors && std::is_same_v<W, float>)
      return constant + gather_dot(values + begin, columns + begin, n, w);
    else if constexpr (on_vectors && std::is_same_v<W, double>)
      return constant + exact_dot(values + begin, columns + begin, n, w);
    else
      return constant + scalar_dot(values + begin, columns + begin, n, w);
  }

  // w += scale * x_i
  template <class W> void add(int64_t i, W scale, W *w) const {
    const int64_t end = offsets[i + 1];
    for (int64_t k = offsets[i]; k < end; ++k)
      w[columns[k]] += scale * static_cast<W>(values[k]);
    w[n_features] += scale * static_cast<W>(bias);
  }

  void cut(int64_t i, const int64_t *bounds, int64_t n, int64_t *cuts) const {
    int64_t k = offsets[i];
    for (int64_t m = 0; m < n; ++m) {
      while (k < offsets[i + 1] && columns[k] < bounds[m])
        ++k;
      cuts[m] = k;
    }
  }
  template <class W> void scaled(int64_t, Range entries, W scale, Term<W> *out) const {
    for (int64_t k = entries.begin; k < entries.end; ++k)
      *out++ = {static_cast<int32_t>(columns[k]), scale * static_cast<W>(values[k])};
  }

  // Calls visit(column, value) for each stored entry of row i; the constant feature is not one.
  template <class Visit> void for_each(int64_t i, Visit &&visit) const {
    for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k)
      visit(static_cast<int64_t>(columns[k]), values[k]);
  }

  void prefetch_place(int64_t i) const { __builtin_prefetch(offsets + i); }

  // Every line of a row, up to a length from which on the hardware keeps up by itself; and those
  // that the last vector of a row reads of, though it masks what is beyond the end.
  void prefetch(int64_t i) const {
    const int64_t begin = offsets[i], n = std::min(offsets[i + 1] - begin, prefetched);
    const int64_t end = begin + (n + vector - 1) / vector * vector;
    prefetch_lines(columns + begin, columns + end);
    prefetch_lines(values + begin, values + end);
  }

  // What a row is going to need of w, where that is more than the nearer caches hold.
  template <class W> void prefetch_weights(int64_t i, const W *w) const {
    for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k)
      __builtin_prefetch(w + columns[k]);
    asm volatile(""); // see prefetch_lines
  }

  static constexpr int64_t vector = 16;
  static constexpr int64_t prefetched = 256;

  struct Copy {
    LargeVector<int64_t> offsets{0};
    RawVector<Column> columns;
    RawVector<Value> values;

    template <class Place>
    void take(const CsrRows &from, int64_t n, const Place &place, int n_threads) {
      offsets.resize(n + 1);
      for (int64_t k = 0; k < n; ++k)
        offsets[k + 1] = offsets[k] + from.row_nnz(place(k));
      columns.resize(offsets[n]);
      values.resize(offsets[n]);
      for_ranges(n, 1024, n_threads, [&](Range rows) {
        for (int64_t k = rows.begin; k < rows.end; ++k) {
          const int64_t begin = from.offsets[place(k)], size = offsets[k + 1] - offsets[k];
          std::copy_n(from.columns + begin, size, columns.data() + offsets[k]);
          std::copy_n(from.values + begin, size, values.data() + offsets[k]);
        }
      });
    }
    CsrRows view(const CsrRows &like) const {
      return {offsets.data(),          columns.data(),  values.data(),
              std::ssize(offsets) - 1, like.n_features, like.bias};
    }
  };
};

template <class Value_> struct DenseRows {
  using Value = Value_;

  const Value *values;
  int64_t n_rows;
  int64_t n_features;
  double bias;

  const Value *row(int64_t i) const { return values + i * n_features; }
  int64_t row_nnz(int64_t) const { return n_features; }
  int64_t nnz() const { return n_rows * n_features; }

  template <class W> W dot(int64_t i, const W *w) const {
    const Value *x = row(i);
    W sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n_features; ++k)
      sum += static_cast<W>(x[k]) * w[k];
    return sum + static_cast<W>(bias) * w[n_features];
  }

  template <class W> void add(int64_t i, W scale, W *w) const {
    const Value *x = row(i);
#pragma omp simd
    for (int64_t k = 0; k < n_features; ++k)
      w[k] += scale * static_cast<W>(x[k]);
    w[n_features] += scale * static_cast<W>(bias);
  }

  void cut(int64_t, const int64_t *bounds, int64_t n, int64_t *cuts) const {
    std::copy_n(bounds, n, cuts);
  }
  template <class W> void scaled(int64_t i, Range entries, W scale, Term<W> *out) const {
    for (int64_t k = entries.begin; k < entries.end; ++k)
      *out++ = {static_cast<int32_t>(k), scale * static_cast<W>(row(i)[k])};
  }

  double squared_norm(int64_t i) const {
    const Value *x = row(i);
    double sum = bias * bias;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n_features; ++k)
      sum += static_cast<double>(x[k]) * static_cast<double>(x[k]);
    return sum;
  }

  template <class Visit> void for_each(int64_t i, Visit &&visit) const {
    for (int64_t k = 0; k < n_features; ++k)
      visit(k, row(i)[k]);
  }

  void prefetch_place(int64_t) const {}
  void prefetch(int64_t i) const {
    prefetch_lines(row(i), row(i) + std::min(n_features, int64_t{256}));
  }

  template <class W> void prefetch_weights(int64_t, const W *) const {}

  struct Copy {
    RawVector<Value> values;
    int64_t n_rows = 0;

    template <class Place>
    void take(const DenseRows &from, int64_t n, const Place &place, int n_threads) {
      n_rows = n;
      values.resize(n * from.n_features);
      for_ranges(n, 256, n_threads, [&](Range rows) {
        for (int64_t k = rows.begin; k < rows.end; ++k)
          std::copy_n(from.row(place(k)), from.n_features, values.data() + k * from.n_features);
      });
    }
    DenseRows view(const DenseRows &like) const {
      return {values.data(), n_rows, like.n_features, like.bias};
    }
  };
};

// Every kind of rows: one more is a struct and a line here.
using AnyRows =
    std::variant<CsrRows<float, int32_t>, CsrRows<float, int64_t>, CsrRows<double, int32_t>,
                 CsrRows<double, int64_t>, DenseRows<float>, DenseRows<double>>;

} // namespace bridle
