#pragma once

#include "structured/ranking/interleaving.hpp"
#include "structured/ranking/settings.hpp"

#include <cstdint>
#include <string_view>

namespace bridle {

// 1 - average precision.
class MapLoss {
public:
  static constexpr std::string_view name = "map";
  static constexpr bool graded = false;

  explicit MapLoss(const RankingSettings &) {}

  double answer(const double *scores, const double *grades, int64_t n, double *coefficients) const {
    const Split q(scores, grades, n);
    const double P = static_cast<double>(q.n_relevant());
    const auto gain = [P](int64_t i, int64_t r) {
      return static_cast<double>(i) / (P * static_cast<double>(i + r));
    };
    return Interleaving(q, gain).answer(coefficients);
  }
};

} // namespace bridle
