// Cuts of the hinge loss and exact line searches.
//
// At w the risk sum_i C_i max(0, 1 - y_i w.x_i) has the cut R - w'.G for every w', with
// G = sum_active y_i C_i x_i, R = sum_active C_i, the rows of margin below 1 being active.
#pragma once

#include "base/parallel.hpp"
#include "rows/passes.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

// One pass: scores[i] = w . x_i, active[i] = [y_i scores[i] < 1], g = G; returns R.
template <RowsLike Rows>
double margin_cut(const Rows &rows, const double *w, const double *signed_cost, double *scores,
                  uint8_t *active, double *g, int n_threads) {
  const int64_t n_blocks = sum_blocks(rows), width = rows.n_features + 1;
  std::vector<double> partial(static_cast<size_t>((n_blocks - 1) * width)), r(n_blocks);
  std::fill_n(g, width, 0.0);
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    double *sum = block == 0 ? g : partial.data() + (block - 1) * width;
    const auto [begin, end] = block_range(rows.n_rows, n_blocks, block);
    for (int64_t i = begin; i < end; ++i) {
      scores[i] = rows.template dot<double>(i, w);
      active[i] = std::copysign(1.0, signed_cost[i]) * scores[i] < 1;
      if (!active[i] || signed_cost[i] == 0)
        continue;
      rows.add(i, signed_cost[i], sum);
      r[block] += std::abs(signed_cost[i]);
    }
  });
  double total = r[0];
  for (int64_t block = 1; block < n_blocks; ++block) {
    total += r[block];
    for (int64_t k = 0; k < width; ++k)
      g[k] += partial[(block - 1) * width + k];
  }
  return total;
}

// out[i] = sum_c weights[c] [bit i of row c], the rows of bits n_bytes apart, lowest bit first.
inline void sum_bits(const uint8_t *bits, int64_t n_bytes, const double *weights, int64_t n_cuts,
                     double *out, int64_t n, int n_threads) {
  const int64_t n_blocks = std::clamp<int64_t>(n / 32768, 1, 64);
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    // Blocks begin at whole bytes, so that no two share one.
    const auto [first, last] = block_range((n + 7) / 8, n_blocks, block);
    std::fill(out + first * 8, out + std::min(last * 8, n), 0.0);
    for (int64_t c = 0; c < n_cuts; ++c) {
      if (weights[c] == 0)
        continue;
      const double choice[2] = {0.0, weights[c]};
      for (int64_t byte = first; byte < last; ++byte) {
        const unsigned value = bits[c * n_bytes + byte];
        if (value == 0)
          continue;
        const int64_t end = std::min<int64_t>(8, n - byte * 8);
        for (int64_t k = 0; k < end; ++k)
          out[byte * 8 + k] += choice[(value >> k) & 1];
      }
    }
  });
}

// The k >= 0 that minimises  slope k + curvature k^2 / 2 + sum_i C_i max(0, 1 - p_i - k e_i).
//
// The derivative rises with k, by C_i |e_i| at the k where row i's margin is 1: the root is found
// by halving the set of those points around their median, in linear time.
inline double hinge_line_search(const double *p, const double *e, const double *cost, int64_t n,
                                double slope, double curvature) {
  struct Break {
    double at, rise;
  };
  std::vector<Break> breaks;
  for (int64_t i = 0; i < n; ++i) {
    const double slack = 1 - p[i];
    if (cost[i] == 0 || e[i] == 0)
      continue;
    if (slack > 0 || (slack == 0 && e[i] < 0))
      slope -= cost[i] * e[i];
    if (slack / e[i] > 0)
      breaks.push_back({slack / e[i], cost[i] * std::abs(e[i])});
  }
  if (slope >= 0)
    return 0;
  size_t begin = 0, end = breaks.size();
  // Invariant: the derivative is negative left of all breaks in [begin, end), where it is
  // slope + curvature k; and not negative at the first break of those beyond end.
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(breaks.begin() + begin, breaks.begin() + middle, breaks.begin() + end,
                     [](const Break &a, const Break &b) { return a.at < b.at; });
    double rise = 0;
    for (size_t k = begin; k < middle; ++k)
      rise += breaks[k].rise;
    const double at = breaks[middle].at, before = slope + rise + curvature * at;
    if (before >= 0) {
      end = middle;
    } else if (before + breaks[middle].rise >= 0) {
      return at;
    } else {
      slope += rise + breaks[middle].rise;
      begin = middle + 1;
    }
  }
  return curvature > 0 ? -slope / curvature : 0;
}

} // namespace bridle
