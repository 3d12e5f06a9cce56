#pragma once

#include "structured/ranking/settings.hpp"
#include "structured/ranking/split.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

namespace bridle {

// 1 - NDCG of the first k, binary gains, with the feature map of pairs. The discount is not convex
// at k, so that no greedy rule interleaves. But below the first k nothing is lost: there falling
// scores are best, and of each kind the first k take the highest. So the answer is a way through a
// table: p relevant and o other documents are placed. The next relevant one costs its discount and
//
//     2/(P N) sum over the others j that are left of max(0, b_j - a_p),
//
// the next other one 2/(P N) sum over the relevant i that are left of max(0, a_i - b_o): what each
// pair loses against falling scores, when the first of the two is placed. O(k^2 + n log n).
class NdcgAtLoss {
public:
  static constexpr std::string_view name = "ndcg-at";
  static constexpr bool graded = false;

  explicit NdcgAtLoss(const RankingSettings &settings)
      : discount_(std::min(settings.k, settings.longest) + 1) {
    for (size_t rank = 1; rank < discount_.size(); ++rank)
      discount_[rank] = 1.0 / std::log2(1.0 + static_cast<double>(rank));
  }

  double answer(const double *scores, const double *grades, int64_t n, double *coefficients) const {
    const Split q(scores, grades, n);
    const int64_t P = q.n_relevant(), N = q.n_others();
    const int64_t top = std::min(static_cast<int64_t>(discount_.size()) - 1, n);
    const double ideal =
        std::accumulate(discount_.begin() + 1, discount_.begin() + 1 + std::min(top, P), 0.0);
    const std::vector<char> relevant = first(q, top, ideal);
    std::vector<int64_t> above(P), below(N);
    double gained = 0;
    int64_t p = 0, o = 0;
    for (int64_t rank = 1; rank <= top; ++rank)
      if (relevant[rank - 1]) {
        gained += discount_[rank];
        above[p++] = o;
      } else
        below[o++] = P - p;
    interleave(q, p, P, o, N, above, below);
    for (int64_t i = p; i < P; ++i)
      above[i] += o;
    pair_coefficients(q, above, below, coefficients);
    return 1.0 - gained / ideal;
  }

private:
  std::vector<double> discount_;

  // What it costs to place a score before those of the other list, which fall, from a place on.
  class Against {
  public:
    explicit Against(const std::vector<double> &others)
        : others_(others), sums_(others.size() + 1) {
      std::partial_sum(others.begin(), others.end(), sums_.begin() + 1);
    }
    int64_t larger(double score) const {
      return std::lower_bound(others_.begin(), others_.end(), score, std::greater{}) -
             others_.begin();
    }
    double cost(double score, int64_t from, int64_t n_larger) const {
      if (from >= n_larger)
        return 0.0;
      return sums_[n_larger] - sums_[from] - static_cast<double>(n_larger - from) * score;
    }

  private:
    const std::vector<double> &others_;
    std::vector<double> sums_;
  };

  // Which of the first ranks are of relevant documents.
  std::vector<char> first(const Split &q, int64_t top, double ideal) const {
    const int64_t P = std::min(q.n_relevant(), top), N = std::min(q.n_others(), top);
    const double scale =
        2.0 / (static_cast<double>(q.n_relevant()) * static_cast<double>(q.n_others()));
    const Against others(q.b), relevant(q.a);
    std::vector<int64_t> larger(N);
    for (int64_t o = 0; o < N; ++o)
      larger[o] = relevant.larger(q.b[o]);
    std::vector<double> costs(N + 1, std::numeric_limits<double>::infinity());
    std::vector<char> last((P + 1) * (N + 1)); // whether the last one placed is relevant
    costs[0] = 0;
    double least = std::numeric_limits<double>::infinity();
    int64_t best = 0;
    for (int64_t p = 0; p <= P; ++p) {
      const int64_t before = p ? others.larger(q.a[p - 1]) : 0;
      for (int64_t o = 0; o <= std::min(N, top - p); ++o) {
        if (p)
          costs[o] += scale * others.cost(q.a[p - 1], o, before) + discount_[p + o] / ideal;
        last[p * (N + 1) + o] = p > 0;
        const double other = o ? costs[o - 1] + scale * relevant.cost(q.b[o - 1], p, larger[o - 1])
                               : std::numeric_limits<double>::infinity();
        if (other < costs[o] || (p == 0 && o > 0)) {
          costs[o] = other;
          last[p * (N + 1) + o] = 0;
        }
      }
      if (top - p <= N && costs[top - p] < least) {
        least = costs[top - p];
        best = p;
      }
    }
    std::vector<char> chosen(top);
    for (int64_t p = best, o = top - best; p + o > 0;) {
      const char is_relevant = last[p * (N + 1) + o];
      chosen[p + o - 1] = is_relevant;
      is_relevant ? --p : --o;
    }
    return chosen;
  }
};

} // namespace bridle
