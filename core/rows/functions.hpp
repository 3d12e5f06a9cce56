// Scores of rows by several functions at once, in float64: the weights of a feature lie side by
// side for as many functions as have room in registers, so that an entry of a row is a few loads
// of vectors for all of them, and each row is read once for so many. Every result is the same for
// any number of threads.
#pragma once

#include "base/function_ref.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "rows/lanes.hpp"
#include "rows/passes.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace bridle {

// Linear functions: n rows of weights, and what each adds.
struct Functions {
  int64_t n;
  const double *weights, *constants;
};

inline constexpr int most_lines = 6; // of lanes: what AVX2 has registers for
inline constexpr int64_t functions_at_once = most_lines * n_lanes<double>;

// A feature's weights of so many functions, on n_lines lines each; the functions' constants last.
template <RowsLike Rows>
LaneTable<double> side_by_side(const Rows &rows, const Functions &all, Range chosen,
                               int64_t n_lines, int n_threads) {
  LaneTable<double> table((rows.n_features + 1) * n_lines);
  for_ranges(rows.n_features + 1, 512, n_threads, [&](Range features) {
    const int64_t end = std::min(features.end, rows.n_features);
    for (int64_t k = chosen.begin; k < chosen.end; ++k)
      for (int64_t j = features.begin; j < end; ++j)
        table.line(j * n_lines)[k - chosen.begin] = all.weights[k * rows.n_features + j];
  });
  for (int64_t k = chosen.begin; k < chosen.end; ++k)
    table.line(rows.n_features * n_lines)[k - chosen.begin] = all.constants[k];
  return table;
}

// Which functions, a row, and its scores by these.
using TakeScores = FunctionRef<void(Range, int64_t, const double *)>;

// take(functions, i, scores) for each row i of a range.
template <RowsLike Rows> struct FunctionsPass {
  Rows rows;
  const Lanes<double> *w;
  Range functions;
  TakeScores take;

  template <int n_lines> void run(Range range) const {
    static const auto best = widest<Run>(run_any<n_lines>, run_v3<n_lines>, run_v4<n_lines>);
    best(*this, range);
  }

private:
  // Vectors as wide as the machine's: compilers keep wider ones in memory.
  template <int n_bytes> struct Vector {
    using Type [[gnu::vector_size(n_bytes), gnu::may_alias]] = double;
  };
  using Run = void(const FunctionsPass &, Range);
  template <int n> static void run_any(const FunctionsPass &p, Range r) { p.by_lines<n, 16>(r); }
  template <int n> BRIDLE_V3 static void run_v3(const FunctionsPass &p, Range r) {
    p.by_lines<n, 32>(r);
  }
  template <int n> BRIDLE_V4 static void run_v4(const FunctionsPass &p, Range r) {
    p.by_lines<n, 64>(r);
  }

  template <int n_lines> [[gnu::always_inline]] inline void prefetch_weights(int64_t i) const {
    if constexpr (requires { rows.columns; })
      for (int64_t k = rows.offsets[i]; k < rows.offsets[i + 1]; ++k)
        for (int m = 0; m < n_lines; ++m)
          __builtin_prefetch(w + rows.columns[k] * n_lines + m);
  }

  template <int n_lines, int n_bytes>
  [[gnu::always_inline]] inline void by_lines(Range range) const {
    constexpr int64_t rows_ahead = 8;
    constexpr int n = n_lines * 64 / n_bytes;
    using V = typename Vector<n_bytes>::Type;
    const V *weights = reinterpret_cast<const V *>(w);
    alignas(64) V sum[n];
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (i + rows_ahead < range.end)
        rows.prefetch(i + rows_ahead);
      if (i + 1 < range.end)
        prefetch_weights<n_lines>(i + 1);
      V own[n];
      for (int m = 0; m < n; ++m)
        own[m] = weights[rows.n_features * n + m];
      rows.for_each(i, [&](int64_t column, auto value) __attribute__((always_inline)) {
        const V *at = weights + column * n;
        for (int m = 0; m < n; ++m)
          own[m] += static_cast<double>(value) * at[m];
      });
      for (int m = 0; m < n; ++m)
        sum[m] = own[m];
      take(functions, i, reinterpret_cast<const double *>(sum));
    }
  }
};

// take(functions, i, scores) for each row i, with its scores by some of the functions; for each row
// in the order of the functions.
template <RowsLike Rows>
void score_by_functions(const Rows &rows, const Functions &all, int n_threads, TakeScores take) {
  const int64_t n_blocks = pass_blocks(rows);
  for (int64_t first = 0; first < all.n; first += functions_at_once) {
    const int64_t n = std::min(functions_at_once, all.n - first);
    const int64_t n_lines = (n + n_lanes<double> - 1) / n_lanes<double>;
    const Range chosen{first, first + n};
    const LaneTable<double> table = side_by_side(rows, all, chosen, n_lines, n_threads);
    const FunctionsPass<Rows> pass{rows, table.lines(), chosen, take};
    for_blocks(n_blocks, n_threads, [&](int64_t block) {
      const Range range = block_range(rows.n_rows, n_blocks, block);
      [&]<int... lines>(std::integer_sequence<int, lines...>) {
        ((n_lines == lines + 1 ? pass.template run<lines + 1>(range) : void()), ...);
      }(std::make_integer_sequence<int, most_lines>{});
    });
  }
}

// scores[i * n + k] = w_k . x_i + constant_k
template <RowsLike Rows>
void scores_of_all(const Rows &rows, const Functions &all, double *scores, int n_threads) {
  score_by_functions(rows, all, n_threads, [&](Range some, int64_t i, const double *found) {
    std::copy_n(found, some.end - some.begin, scores + i * all.n + some.begin);
  });
}

// The function with the largest score of each row; the first of equals.
template <RowsLike Rows>
void best_of_all(const Rows &rows, const Functions &all, int64_t *best, int n_threads) {
  Buffer<double> largest(static_cast<size_t>(all.n > functions_at_once ? rows.n_rows : 0));
  score_by_functions(rows, all, n_threads, [&](Range some, int64_t i, const double *found) {
    const int64_t n = some.end - some.begin;
    double top = found[0];
#pragma omp simd reduction(max : top)
    for (int64_t k = 0; k < n; ++k)
      top = std::max(top, found[k]);
    if (largest.size() > 0) {
      if (some.begin > 0 && !(top > largest.data()[i]))
        return;
      largest.data()[i] = top;
    }
    best[i] = some.begin + (std::find(found, found + n - 1, top) - found);
  });
}

} // namespace bridle
