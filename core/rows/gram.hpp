// Weighted Gram matrices of rows: what second-order methods need of them.
#pragma once

#include "base/parallel.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace bridle {

// The lower triangle of out += sum_i weights[i] x_i x_i', out having n_features + 1 rows and
// columns (the last for the constant feature). The columns of each row must be in order.
template <RowsLike Rows>
void weighted_gram(const Rows &rows, const double *weights, double *out, int n_threads) {
  const int64_t width = rows.n_features + 1;
  std::atomic<int64_t> products{0};
  for_ranges(rows.n_rows, 16384, n_threads, [&](Range part) {
    int64_t here = 0;
    for (int64_t i = part.begin; i < part.end; ++i)
      here += weights[i] != 0 ? rows.row_nnz(i) * rows.row_nnz(i) : 0;
    products += here;
  });
  const double work = 0.5 * static_cast<double>(products.load());
  // Private sums cost a matrix each: no more of them than the work and the memory justify, and
  // never by threads.
  const auto size = static_cast<double>(width) * static_cast<double>(width);
  const auto most = static_cast<int64_t>(std::clamp((1 << 22) / size, 8.0, 64.0));
  const int64_t n_blocks = std::clamp<int64_t>(static_cast<int64_t>(work / (4 * size)), 1, most);
  std::vector<std::vector<double>> partial(n_blocks - 1);
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    if (block > 0)
      partial[block - 1].assign(width * width, 0.0);
    double *sum = block == 0 ? out : partial[block - 1].data();
    std::vector<int64_t> columns;
    std::vector<double> values;
    const auto [begin, end] = block_range(rows.n_rows, n_blocks, block);
    for (int64_t i = begin; i < end; ++i) {
      if (weights[i] == 0)
        continue;
      columns.clear();
      values.clear();
      rows.for_each(i, [&](int64_t column, auto value) {
        columns.push_back(column);
        values.push_back(static_cast<double>(value));
      });
      if (rows.bias != 0) {
        columns.push_back(rows.n_features);
        values.push_back(rows.bias);
      }
      for (size_t a = 0; a < columns.size(); ++a) {
        double *row = sum + columns[a] * width;
        const double scaled = weights[i] * values[a];
        for (size_t b = 0; b <= a; ++b)
          row[columns[b]] += scaled * values[b];
      }
    }
  });
  for_ranges(width * width, 4096, n_threads, [&](Range range) {
    for (const auto &sum : partial)
      for (int64_t k = range.begin; k < range.end; ++k)
        out[k] += sum[k];
  });
}

} // namespace bridle
