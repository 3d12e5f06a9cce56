// Sequential passes over the rows: what certificates and predictions are made of. All sums are in
// float64, and every result is the same for any number of threads.
#pragma once

#include "base/cpu.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace bridle {

struct ScanResult {
  bool canonical; // the columns of every row strictly increase
};

// The block structure depends on the data alone, never on the threads.
template <RowsLike Rows> int64_t pass_blocks(const Rows &rows) {
  return std::clamp<int64_t>(rows.nnz() / 65536, 1, std::clamp<int64_t>(rows.n_rows, 1, 64));
}

// The facts of a row; throws if a column is out of bounds.
template <class Value, class Column>
RowFacts check_row(const CsrRows<Value, Column> &rows, int64_t i) {
  const int64_t begin = rows.offsets[i], n = rows.row_nnz(i);
  const Column *columns = rows.columns + begin;
  RowFacts facts;
  if constexpr (std::is_same_v<Value, float> && std::is_same_v<Column, int32_t>)
    facts = scan_row(rows.values + begin, columns, n);
  else
    facts = scalar_scan_row(rows.values + begin, columns, n);
  facts.squared_norm += rows.bias * rows.bias;
  // If they increase, the first and the last one speak for all.
  if (facts.increasing && (n == 0 || (columns[0] >= 0 && columns[n - 1] < rows.n_features)))
    return facts;
  for (int64_t k = 0; k < n; ++k)
    if (columns[k] < 0 || columns[k] >= rows.n_features)
      throw std::invalid_argument("row " + std::to_string(i) + " has column index " +
                                  std::to_string(columns[k]) + ", outside 0.." +
                                  std::to_string(rows.n_features - 1));
  return facts;
}

template <class Value> RowFacts check_row(const DenseRows<Value> &rows, int64_t i) {
  return {rows.squared_norm(i), true};
}

template <RowsLike Rows> [[noreturn]] void refuse_row(const Rows &rows, int64_t i) {
  rows.for_each(i, [&](int64_t column, auto value) {
    if (!std::isfinite(value))
      throw std::invalid_argument("X contains NaN or infinity: row " + std::to_string(i) +
                                  ", column " + std::to_string(column));
  });
  throw std::invalid_argument("row " + std::to_string(i) +
                              " is too large: its squared length overflows float64; scale the "
                              "features");
}

// The columns alone: throws if one is out of bounds.
inline void check_columns(const AnyRows &any) {
  std::visit(
      [](const auto &rows) {
        if constexpr (requires { rows.columns; }) {
          const auto *begin = rows.columns + rows.offsets[0];
          const auto *end = rows.columns + rows.offsets[rows.n_rows];
          int64_t least = 0, most = -1;
          for (const auto *c = begin; c < end; ++c) {
            least = std::min<int64_t>(least, *c);
            most = std::max<int64_t>(most, *c);
          }
          if (least < 0 || most >= rows.n_features)
            throw std::invalid_argument("there is a column index " +
                                        std::to_string(least < 0 ? least : most) + ", outside 0.." +
                                        std::to_string(rows.n_features - 1));
        }
      },
      any);
}

// One pass that answers all questions about the input: indices within bounds, values finite,
// columns in order; and |x_i|^2 of every row, the constant feature included.
template <RowsLike Rows> ScanResult scan(const Rows &rows, double *squared_norms, int n_threads) {
  const int64_t n_blocks = pass_blocks(rows);
  std::vector<char> canonical(n_blocks, 1);
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    const auto [begin, end] = block_range(rows.n_rows, n_blocks, block);
    bool increasing = true;
    for (int64_t i = begin; i < end; ++i) {
      const RowFacts facts = check_row(rows, i);
      increasing &= facts.increasing;
      squared_norms[i] = facts.squared_norm;
      if (!std::isfinite(facts.squared_norm))
        refuse_row(rows, i);
    }
    canonical[block] = increasing;
  });
  return {std::all_of(canonical.begin(), canonical.end(), [](char c) { return c; })};
}

// scores[i] = w . x_i, the constant feature included.
template <RowsLike Rows>
void scores(const Rows &rows, const double *w, double *scores, int n_threads) {
  const int64_t n_blocks = pass_blocks(rows);
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    const auto [begin, end] = block_range(rows.n_rows, n_blocks, block);
    for (int64_t i = begin; i < end; ++i)
      scores[i] = rows.template dot<double>(i, w);
  });
}

// sum[k] += scale * w[k], for the n functions of one feature.
BRIDLE_WIDEST inline void add_scaled(double scale, const double *w, double *sum, int64_t n) {
  for (int64_t k = 0; k < n; ++k)
    sum[k] += scale * w[k];
}

// scores[i * n + k] = w_k . x_i of n functions at once: w has n weights a feature, side by side,
// so that a row is read once and its weights lie together.
template <RowsLike Rows>
void scores_of_all(const Rows &rows, const double *w, int64_t n, double *scores, int n_threads) {
  const int64_t n_blocks = pass_blocks(rows);
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    const auto [begin, end] = block_range(rows.n_rows, n_blocks, block);
    for (int64_t i = begin; i < end; ++i) {
      double *own = scores + i * n;
      for (int64_t k = 0; k < n; ++k)
        own[k] = rows.bias * w[rows.n_features * n + k];
      rows.for_each(i, [&](int64_t column, auto value) {
        add_scaled(static_cast<double>(value), w + column * n, own, n);
      });
    }
  });
}

// Private sums cost n_features each: no more of them than the work justifies.
template <RowsLike Rows> int64_t sum_blocks(const Rows &rows) {
  return std::clamp<int64_t>(rows.nnz() / (32 * (rows.n_features + 1) + 65536), 1, 16);
}

// Calls add(i, sum) for every row, or add(range, sum, block) for ranges of them, the sums being
// private to blocks, and adds those up in w.
template <RowsLike Rows, class Sum, class Add>
void sum_rows(const Rows &rows, Sum *w, int n_threads, Add &&add) {
  const int64_t n_blocks = sum_blocks(rows), width = rows.n_features + 1;
  Buffer<Sum> partial(static_cast<size_t>((n_blocks - 1) * width));
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    Sum *sum = block == 0 ? w : partial.data() + (block - 1) * width;
    std::fill_n(sum, width, Sum{});
    const Range mine = block_range(rows.n_rows, n_blocks, block);
    if constexpr (std::is_invocable_v<Add &, Range, Sum *, int64_t>)
      add(mine, sum, block);
    else
      for (int64_t i = mine.begin; i < mine.end; ++i)
        add(i, sum);
  });
  if (n_blocks == 1)
    return;
  for_ranges(width, 4096, n_threads, [&](Range range) {
    for (int64_t block = 1; block < n_blocks; ++block)
      for (int64_t k = range.begin; k < range.end; ++k)
        w[k] += partial.data()[(block - 1) * width + k];
  });
}

// w = sum_i coefficients[i] x_i
template <RowsLike Rows>
void combine(const Rows &rows, const double *coefficients, double *w, int n_threads) {
  sum_rows(rows, w, n_threads, [&](int64_t i, double *sum) {
    if (coefficients[i] != 0)
      rows.add(i, coefficients[i], sum);
  });
}

// The same and scores[i] = w_at . x_i in one pass: each row is read once for both.
template <RowsLike Rows>
void combine_and_score(const Rows &rows, const double *coefficients, double *w, const double *w_at,
                       double *scores, int n_threads) {
  sum_rows(rows, w, n_threads, [&](int64_t i, double *sum) {
    scores[i] = rows.dot(i, w_at);
    if (coefficients[i] != 0)
      rows.add(i, coefficients[i], sum);
  });
}

} // namespace bridle
