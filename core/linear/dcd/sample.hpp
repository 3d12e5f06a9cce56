// The gap of all rows, estimated from some drawn at random.
#pragma once

#include "base/rng.hpp"
#include "linear/dcd/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace bridle {

// Neighbours come together, for the sake of memory: their sums are what is drawn.
template <class Gap> DcdSample sample_gap(Rng &rng, int64_t n_items, int64_t n, const Gap &gap) {
  constexpr int64_t together = 8;
  const int64_t n_groups = (n_items + together - 1) / together;
  if (n_groups == 0)
    return {0, 0};
  const auto draws = static_cast<double>((n + together - 1) / together);
  double sum = 0, squares = 0;
  for (int64_t k = 0; k < draws; ++k) {
    const auto begin = static_cast<int64_t>(rng.below(n_groups)) * together;
    double here = 0;
    for (int64_t i = begin; i < std::min(begin + together, n_items); ++i)
      here += gap(i);
    sum += here;
    squares += here * here;
  }
  const double mean = sum / draws, variance = std::max(0.0, squares / draws - mean * mean);
  const auto groups = static_cast<double>(n_groups);
  return {groups * mean, groups * std::sqrt(variance / draws)};
}

} // namespace bridle
