// What a certificate asks of the rows, in one pass.
#pragma once

#include "rows/passes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

// alpha = own inside 0..upper; w = sum_i alpha_i y_i x_i; scores[i] = w_at . x_i. Returns how far
// own was outside, in sum.
template <RowsLike Rows>
double judge_rows(const Rows &rows, const double *own, const double *upper, const double *y,
                  const double *w_at, double *alpha, double *w, double *scores, int n_threads) {
  struct alignas(64) Part { // on a line of its own, since threads write these for every row
    double outside = 0;
  };
  std::vector<Part> parts(sum_blocks(rows));
  sum_rows(rows, w, n_threads, [&](int64_t i, double *sum, int64_t block) {
    alpha[i] = std::min(std::max(own[i], 0.0), upper[i]);
    parts[block].outside += std::abs(alpha[i] - own[i]);
    scores[i] = rows.dot(i, w_at);
    if (alpha[i] != 0)
      rows.add(i, alpha[i] * y[i], sum);
  });
  double all = 0;
  for (const Part &part : parts)
    all += part.outside;
  return all;
}

} // namespace bridle
