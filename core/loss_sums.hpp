// The loss of all rows, known from both sides.
#pragma once

#include "base/sums.hpp"
#include "losses.hpp"

#include <array>
#include <cmath>
#include <cstdint>

namespace bridle {

struct LossSums {
  KnownSum least, most;
};

// sum_i C_i loss(y_i s_i), of y_i C_i and of scores that are known up to an error.
template <LossLike Loss>
LossSums loss_sums(const Loss &loss, const double *signed_cost, const double *scores, double error,
                   int64_t n, int n_threads) {
  const auto found = sums_of_blocks<4>(n, n_threads, [&](int64_t begin, int64_t size) {
    double cost[sum_block], low[sum_block], high[sum_block];
    for (int64_t k = 0; k < size; ++k) {
      const double p = std::copysign(1.0, signed_cost[begin + k]) * scores[begin + k];
      cost[k] = std::abs(signed_cost[begin + k]);
      low[k] = loss.value(p + error);
      high[k] = loss.value(p - error);
    }
    const KnownSum a = inner_block(cost, low, size), b = inner_block(cost, high, size);
    return std::array{a.sum, a.size, b.sum, b.size};
  });
  return {{found[0], found[1]}, {found[2], found[3]}};
}

} // namespace bridle
