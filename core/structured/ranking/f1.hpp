#pragma once

#include "structured/ranking/settings.hpp"
#include "structured/ranking/split.hpp"

#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

namespace bridle {

// 1 - F1 = 1 - 2 h / (P + h + f) for h hits and f false alarms. For each h the objective is concave
// in f: bisection, O(P log N) after sorting.
class F1Loss {
public:
  static constexpr std::string_view name = "f1";
  static constexpr bool graded = false;

  explicit F1Loss(const RankingSettings &) {}

  double answer(const double *scores, const double *grades, int64_t n, double *coefficients) const {
    const Split q(scores, grades, n);
    const int64_t P = q.n_relevant(), N = q.n_others();
    const double positives = static_cast<double>(P);
    std::vector<double> sum_b(N + 1);
    std::partial_sum(q.b.begin(), q.b.end(), sum_b.begin() + 1);
    double top = 0, missed = 0; // the truth: h = P, f = 0
    int64_t hits = P, false_alarms = 0;
    for (int64_t h = P; h >= 0; --h) {
      if (h < P)
        missed += q.a[h];
      const auto rising = [&](int64_t f) { // whether one more false alarm is better
        return f1(h, f, positives) - f1(h, f + 1, positives) + q.b[f] / positives > 0;
      };
      int64_t low = 0, high = N;
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        rising(middle) ? low = middle + 1 : high = middle;
      }
      const double value = 1.0 - f1(h, low, positives) - (missed - sum_b[low]) / positives;
      if (value > top) {
        top = value;
        hits = h;
        false_alarms = low;
      }
    }
    label_coefficients(q, hits, false_alarms, coefficients);
    return 1.0 - f1(hits, false_alarms, positives);
  }

private:
  static double f1(int64_t h, int64_t f, double positives) {
    return 2.0 * static_cast<double>(h) / (positives + static_cast<double>(h + f));
  }
};

} // namespace bridle
