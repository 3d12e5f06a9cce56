// Passes over the rows for several functions at once, in float64: each row is read once for as many
// functions as have a lane. Every result is the same for any number of threads.
#pragma once

#include "base/parallel.hpp"
#include "rows/lanes.hpp"
#include "rows/passes.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace bridle {

// Some rows of a pass for up to n_lanes functions, which reads and writes rows of tables.
template <RowsLike Rows> struct LanesPass {
  static constexpr int n = n_lanes<double>;

  Rows rows;
  int64_t n_functions;
  const double *coefficients[n]; // of each row
  double *scores[n];
  const Lanes<double> *w;

  void run(Range range, Lanes<double> *sum) const {
    static const auto best = widest<Run>(run_any, run_v3, run_v4);
    best(*this, range, sum);
  }

private:
  using Run = void(const LanesPass &, Range, Lanes<double> *);
  static void run_any(const LanesPass &p, Range r, Lanes<double> *sum) { p.by_lanes(r, sum); }
  BRIDLE_V3 static void run_v3(const LanesPass &p, Range r, Lanes<double> *sum) {
    p.by_lanes(r, sum);
  }
  BRIDLE_V4 static void run_v4(const LanesPass &p, Range r, Lanes<double> *sum) {
    p.by_lanes(r, sum);
  }

  [[gnu::always_inline]] inline void by_lanes(Range range, Lanes<double> *sum) const {
    constexpr int64_t rows_ahead = 8, weights_ahead = 2;
    alignas(64) double score[n], coefficient[n] = {};
    const double *constant = reinterpret_cast<const double *>(w + rows.n_features);
    auto *constant_sum = reinterpret_cast<double *>(sum + rows.n_features);
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (i + rows_ahead < rows.n_rows)
        rows.prefetch(i + rows_ahead);
      if (i + weights_ahead < range.end)
        prefetch_weights<double, n>(rows, i + weights_ahead, w);
      lane_dot<double, n>(rows, i, w, score);
      bool any = false;
      for (int64_t k = 0; k < n_functions; ++k) {
        scores[k][i] = score[k] + rows.bias * constant[k];
        coefficient[k] = coefficients[k][i];
        any |= coefficient[k] != 0;
      }
      if (!any)
        continue;
      lane_add<double, n>(rows, i, coefficient, sum);
      for (int k = 0; k < n; ++k)
        constant_sum[k] += coefficient[k] * rows.bias;
    }
  }
};

// Of each of n_functions: combined = sum_i coefficients[i] x_i and scores[i] = w . x_i. Each of the
// tables has a row for each function.
template <RowsLike Rows>
void combine_and_score_all(const Rows &rows, int64_t n_functions, const double *coefficients,
                           double *combined, const double *w, double *scores, int n_threads) {
  constexpr int64_t n = n_lanes<double>;
  const int64_t width = rows.n_features + 1, n_blocks = sum_blocks(rows);
  LaneTable<double> weights(width);
  std::vector<LaneTable<double>> sums;
  for (int64_t block = 0; block < n_blocks; ++block)
    sums.emplace_back(width);
  for (int64_t first = 0; first < n_functions; first += n) {
    const int64_t here = std::min(n, n_functions - first);
    LanesPass<Rows> pass{rows, here, {}, {}, weights.lines()};
    for (int64_t k = 0; k < here; ++k) {
      pass.coefficients[k] = coefficients + (first + k) * rows.n_rows;
      pass.scores[k] = scores + (first + k) * rows.n_rows;
    }
    for (int64_t j = 0; j < width; ++j)
      for (int64_t k = 0; k < here; ++k)
        weights.line(j)[k] = w[(first + k) * width + j];
    for_blocks(n_blocks, n_threads, [&](int64_t block) {
      std::fill_n(sums[block].line(0), width * n, 0.0);
      pass.run(block_range(rows.n_rows, n_blocks, block), sums[block].lines());
    });
    for (int64_t j = 0; j < width; ++j)
      for (int64_t k = 0; k < here; ++k) {
        double sum = 0;
        for (const LaneTable<double> &part : sums)
          sum += part.line(j)[k];
        combined[(first + k) * width + j] = sum;
      }
  }
}

// sum[j * n + k] += sum_i coefficients[i * n + k] term(x_ij) of n functions at once, whose sums for
// a feature lie together. The constant feature is the last.
template <RowsLike Rows, class Term>
void combine_of_all(const Rows &rows, const double *coefficients, int64_t n, double *combined,
                    int n_threads, const Term &term) {
  const int64_t n_blocks = std::min<int64_t>(sum_blocks(rows), 4), size = (rows.n_features + 1) * n;
  Buffer<double> partial(static_cast<size_t>((n_blocks - 1) * size));
  const auto sum_of = [&](int64_t block) {
    return block == 0 ? combined : partial.data() + (block - 1) * size;
  };
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    double *sum = sum_of(block);
    std::fill_n(sum, size, 0.0);
    const auto [begin, end] = block_range(rows.n_rows, n_blocks, block);
    for (int64_t i = begin; i < end; ++i) {
      const double *own = coefficients + i * n;
      rows.for_each(i, [&](int64_t column, auto value) {
        add_scaled(term(static_cast<double>(value)), own, sum + column * n, n);
      });
      add_scaled(term(rows.bias), own, sum + rows.n_features * n, n);
    }
  });
  for (int64_t block = 1; block < n_blocks; ++block)
    for_ranges(size, 4096, n_threads, [&](Range range) {
      for (int64_t k = range.begin; k < range.end; ++k)
        combined[k] += sum_of(block)[k];
    });
}

} // namespace bridle
