// The loss of all rows, known from both sides.
#pragma once

#include "base/parallel.hpp"
#include "base/sums.hpp"
#include "losses.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

struct LossSums {
  KnownSum least, most;
};

// sum_i C_i loss(y_i s_i), of y_i C_i and of scores that are known up to an error.
template <LossLike Loss>
LossSums loss_sums(const Loss &loss, const double *signed_cost, const double *scores, double error,
                   int64_t n, int n_threads) {
  constexpr int64_t grain = 16384;
  std::vector<LossSums> parts((n + grain - 1) / grain);
  for_ranges(n, grain, n_threads, [&](Range range) {
    Compensated sums[4];
    double cost[sum_block], low[sum_block], high[sum_block];
    for (int64_t begin = range.begin; begin < range.end; begin += sum_block) {
      const int64_t size = std::min(sum_block, range.end - begin);
      for (int64_t k = 0; k < size; ++k) {
        const double p = std::copysign(1.0, signed_cost[begin + k]) * scores[begin + k];
        cost[k] = std::abs(signed_cost[begin + k]);
        low[k] = loss.value(p + error);
        high[k] = loss.value(p - error);
      }
      const KnownSum a = inner_block(cost, low, size);
      const KnownSum b = inner_block(cost, high, size);
      const double found[4] = {a.sum, a.size, b.sum, b.size};
      for (int k = 0; k < 4; ++k)
        sums[k].add(found[k]);
    }
    parts[range.begin / grain] = {{sums[0].value(), sums[1].value()},
                                  {sums[2].value(), sums[3].value()}};
  });
  Compensated all[4];
  for (const LossSums &part : parts) {
    const double found[4] = {part.least.sum, part.least.size, part.most.sum, part.most.size};
    for (int k = 0; k < 4; ++k)
      all[k].add(found[k]);
  }
  return {{all[0].value(), all[1].value()}, {all[2].value(), all[3].value()}};
}

} // namespace bridle
