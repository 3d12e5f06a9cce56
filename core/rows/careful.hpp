// The passes of a certificate once more, with twice the digits: for the few whose gap is not much
// larger than what rounding may have done to the usual ones.
#pragma once

#include "base/double_double.hpp"
#include "rows/passes.hpp"

namespace bridle {

// w = sum_i coefficients[i] x_i and scores[i] = w_at . x_i + shift, each rounded once.
template <RowsLike Rows>
void careful_combine_and_score(const Rows &rows, const double *coefficients, double *w,
                               const double *w_at, double shift, double *scores, int n_threads) {
  const int64_t width = rows.n_features + 1;
  std::vector<DoubleDouble> sums(static_cast<size_t>(width));
  sum_rows(rows, sums.data(), n_threads, [&](int64_t i, DoubleDouble *sum) {
    DoubleDouble score{shift};
    score.add_product(rows.bias, w_at[rows.n_features]);
    rows.for_each(i, [&](int64_t column, auto value) {
      score.add_product(static_cast<double>(value), w_at[column]);
    });
    scores[i] = score.value();
    if (coefficients[i] == 0)
      return;
    rows.for_each(i, [&](int64_t column, auto value) {
      sum[column].add_product(coefficients[i], static_cast<double>(value));
    });
    sum[rows.n_features].add_product(coefficients[i], rows.bias);
  });
  for (int64_t k = 0; k < width; ++k)
    w[k] = sums[static_cast<size_t>(k)].value();
}

} // namespace bridle
