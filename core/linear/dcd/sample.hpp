// The gap of all rows, estimated from some drawn at random.
#pragma once

#include "base/parallel.hpp"
#include "base/rng.hpp"
#include "linear/dcd/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

// Neighbours come together, for the sake of memory: their sums are what is drawn.
template <class Gap>
DcdSample sample_gap(Rng &rng, int64_t n_items, int64_t n, int n_threads, const Gap &gap) {
  constexpr int64_t together = 8;
  const int64_t n_groups = (n_items + together - 1) / together;
  if (n_groups == 0)
    return {0, 0};
  const int64_t n_draws = (n + together - 1) / together;
  const auto draws = static_cast<double>(n_draws);
  std::vector<int64_t> drawn(n_draws);
  for (int64_t &group : drawn)
    group = static_cast<int64_t>(rng.below(n_groups));
  std::vector<double> found(n_draws, 0.0);
  for_ranges(n_draws, 16, n_threads, [&](Range part) {
    for (int64_t k = part.begin; k < part.end; ++k) {
      const int64_t begin = drawn[k] * together;
      for (int64_t i = begin; i < std::min(begin + together, n_items); ++i)
        found[k] += gap(i);
    }
  });
  double sum = 0, squares = 0;
  for (const double here : found) {
    sum += here;
    squares += here * here;
  }
  const double mean = sum / draws, variance = std::max(0.0, squares / draws - mean * mean);
  const auto groups = static_cast<double>(n_groups);
  return {groups * mean, groups * std::sqrt(variance / draws)};
}

} // namespace bridle
