#pragma once

#include "structured/ranking/settings.hpp"
#include "structured/ranking/split.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

namespace bridle {

// 1 - (relevant among the first k) / min(k, P), with the same feature map. An answer has h relevant
// documents and k - h others at the top; within the top and within the rest, falling scores are
// best. Fewer than the h0 that the scores alone put there cost, in units of 2/(P N),
//
//     T(h) = sum over relevant i > h, others j <= k - h of max(0, a_i - b_j),
//
// from T(h0) = 0 on one row and one column at a time; more of them would lower loss and score.
class PrecisionLoss {
public:
  static constexpr std::string_view name = "precision";
  static constexpr bool graded = false;

  explicit PrecisionLoss(const RankingSettings &settings) : k_(settings.k) {}

  double answer(const double *scores, const double *grades, int64_t n, double *coefficients) const {
    const Split q(scores, grades, n);
    const int64_t k = std::min(k_, n), best = hits(q, k);
    write(q, k, best, coefficients);
    return 1.0 - static_cast<double>(best) / static_cast<double>(std::min(k, q.n_relevant()));
  }

private:
  int64_t k_;

  static int64_t hits(const Split &q, int64_t k) {
    const int64_t P = q.n_relevant(), N = q.n_others();
    const auto &a = q.a, &b = q.b;
    int64_t h = 0;
    for (int64_t taken = 0, j = 0; taken < k; ++taken)
      h < P && (j == N || a[h] >= b[j]) ? ++h : ++j;
    std::vector<double> sum_a(P + 1), sum_b(N + 1);
    std::partial_sum(a.begin(), a.end(), sum_a.begin() + 1);
    std::partial_sum(b.begin(), b.end(), sum_b.begin() + 1);
    const double scale = 2.0 / (static_cast<double>(P) * static_cast<double>(N));
    const double hit = 1.0 / static_cast<double>(std::min(k, P));
    double gained = 0, most = 0, T = 0;
    int64_t best = h;
    for (; h > std::max<int64_t>(0, k - N); --h) {
      // Relevant document h leaves the top, other document j comes in.
      const int64_t j = k - h + 1;
      const int64_t from = std::partition_point(b.begin(), b.begin() + (j - 1),
                                                [&](double s) { return s >= a[h - 1]; }) -
                           b.begin();
      T += static_cast<double>(j - 1 - from) * a[h - 1] - (sum_b[j - 1] - sum_b[from]);
      const int64_t to = std::partition_point(a.begin() + (h - 1), a.end(),
                                              [&](double s) { return s > b[j - 1]; }) -
                         a.begin();
      T += (sum_a[to] - sum_a[h - 1]) - static_cast<double>(to - (h - 1)) * b[j - 1];
      gained += hit;
      if (gained - scale * T > most) {
        most = gained - scale * T;
        best = h - 1;
      }
    }
    return best;
  }

  static void write(const Split &q, int64_t k, int64_t h, double *coefficients) {
    const int64_t P = q.n_relevant(), N = q.n_others(), top = k - h;
    std::vector<int64_t> above(P), below(N);
    interleave(q, 0, h, 0, top, above, below);
    interleave(q, h, P, top, N, above, below);
    for (int64_t i = h; i < P; ++i)
      above[i] += top;
    for (int64_t j = 0; j < top; ++j)
      below[j] += P - h;
    pair_coefficients(q, above, below, coefficients);
  }
};

} // namespace bridle
