// One view over the rows of a matrix: CSR or dense, float32 or float64, 32- or 64-bit columns.
// Nothing is copied. Every weight vector has n_features + 1 entries: the last one belongs to the
// constant feature of value `bias` (0 when there is none), so that no kernel needs to know of it.
#pragma once

#include <cstdint>
#include <variant>

namespace bridle {

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

  // w . x_i, accumulated in W. Four sums break the chain of dependent additions.
  template <class W> W dot(int64_t i, const W *w) const {
    const int64_t end = offsets[i + 1];
    int64_t k = offsets[i];
    W s0 = static_cast<W>(bias) * w[n_features], s1 = 0, s2 = 0, s3 = 0;
    for (; k + 4 <= end; k += 4) {
      s0 += static_cast<W>(values[k]) * w[columns[k]];
      s1 += static_cast<W>(values[k + 1]) * w[columns[k + 1]];
      s2 += static_cast<W>(values[k + 2]) * w[columns[k + 2]];
      s3 += static_cast<W>(values[k + 3]) * w[columns[k + 3]];
    }
    for (; k < end; ++k)
      s0 += static_cast<W>(values[k]) * w[columns[k]];
    return (s0 + s1) + (s2 + s3);
  }

  // w += scale * x_i
  template <class W> void add(int64_t i, W scale, W *w) const {
    const int64_t end = offsets[i + 1];
    for (int64_t k = offsets[i]; k < end; ++k)
      w[columns[k]] += scale * static_cast<W>(values[k]);
    w[n_features] += scale * static_cast<W>(bias);
  }

  double squared_norm(int64_t i) const {
    double sum = bias * bias;
    for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k)
      sum += static_cast<double>(values[k]) * static_cast<double>(values[k]);
    return sum;
  }

  // Calls visit(column, value) for each stored entry of row i; the constant feature is not one.
  template <class Visit> void for_each(int64_t i, Visit &&visit) const {
    for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k)
      visit(static_cast<int64_t>(columns[k]), values[k]);
  }

  // Only the first lines of a row: the hardware follows from there.
  void prefetch(int64_t i) const {
    const int64_t k = offsets[i];
    __builtin_prefetch(columns + k);
    __builtin_prefetch(values + k);
    __builtin_prefetch(columns + k + 64 / sizeof(Column));
    __builtin_prefetch(values + k + 64 / sizeof(Value));
  }
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

  double squared_norm(int64_t i) const {
    const Value *x = row(i);
    double sum = bias * bias;
    for (int64_t k = 0; k < n_features; ++k)
      sum += static_cast<double>(x[k]) * static_cast<double>(x[k]);
    return sum;
  }

  template <class Visit> void for_each(int64_t i, Visit &&visit) const {
    for (int64_t k = 0; k < n_features; ++k)
      visit(k, row(i)[k]);
  }

  void prefetch(int64_t i) const { __builtin_prefetch(row(i)); }
};

using AnyRows =
    std::variant<CsrRows<float, int32_t>, CsrRows<float, int64_t>, CsrRows<double, int32_t>,
                 CsrRows<double, int64_t>, DenseRows<float>, DenseRows<double>>;

} // namespace bridle
