#pragma once

#include "structured/ranking/interleaving.hpp"
#include "structured/ranking/settings.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

namespace bridle {

// 1 - NDCG over the whole list, binary gains, discount 1 / log2(1 + rank), which is convex
// (Chakrabarti, Khanna, Sawant & Bhattacharyya, KDD 2008).
class NdcgLoss {
public:
  static constexpr std::string_view name = "ndcg";
  static constexpr bool graded = false;

  explicit NdcgLoss(const RankingSettings &settings) : discount_(settings.longest + 1) {
    for (int64_t rank = 1; rank <= settings.longest; ++rank)
      discount_[rank] = 1.0 / std::log2(1.0 + static_cast<double>(rank));
  }

  double answer(const double *scores, const double *grades, int64_t n, double *coefficients) const {
    const Split q(scores, grades, n);
    const double ideal =
        std::accumulate(discount_.begin() + 1, discount_.begin() + 1 + q.n_relevant(), 0.0);
    const auto gain = [&](int64_t i, int64_t r) { return discount_[i + r] / ideal; };
    return Interleaving(q, gain).answer(coefficients);
  }

private:
  std::vector<double> discount_;
};

} // namespace bridle
