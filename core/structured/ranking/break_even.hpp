#pragma once

#include "structured/ranking/settings.hpp"
#include "structured/ranking/split.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace bridle {

// 1 - precision at the break-even point: P rows are called positive, so that precision equals
// recall. Each exchange of a hit for a false alarm gains less than the one before.
class BreakEvenLoss {
public:
  static constexpr std::string_view name = "prbep";
  static constexpr bool graded = false;

  explicit BreakEvenLoss(const RankingSettings &) {}

  double answer(const double *scores, const double *grades, int64_t n, double *coefficients) const {
    const Split q(scores, grades, n);
    const int64_t P = q.n_relevant(), most = std::min(P, q.n_others());
    int64_t exchanged = 0;
    while (exchanged < most && 1.0 - (q.a[P - 1 - exchanged] - q.b[exchanged]) > 0)
      ++exchanged;
    label_coefficients(q, P - exchanged, exchanged, coefficients);
    return static_cast<double>(exchanged) / static_cast<double>(P);
  }
};

} // namespace bridle
