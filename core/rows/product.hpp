// Inner products of two rows of a matrix, the constant feature included.
#pragma once

#include "rows/views.hpp"

#include <cstdint>

namespace bridle {

// x_i . x_j, the columns in increasing order.
template <class Value, class Column>
double row_product(const CsrRows<Value, Column> &rows, int64_t i, int64_t j) {
  double sum = rows.bias * rows.bias;
  int64_t p = rows.offsets[i], q = rows.offsets[j];
  const int64_t p_end = rows.offsets[i + 1], q_end = rows.offsets[j + 1];
  while (p < p_end && q < q_end) {
    const auto a = rows.columns[p], b = rows.columns[q];
    if (a == b)
      sum += static_cast<double>(rows.values[p]) * static_cast<double>(rows.values[q]);
    p += a <= b;
    q += b <= a;
  }
  return sum;
}

template <class Value> double row_product(const DenseRows<Value> &rows, int64_t i, int64_t j) {
  double sum = rows.bias * rows.bias;
  for (int64_t k = 0; k < rows.n_features; ++k)
    sum += static_cast<double>(rows.row(i)[k]) * static_cast<double>(rows.row(j)[k]);
  return sum;
}

} // namespace bridle
