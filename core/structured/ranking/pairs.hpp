#pragma once

#include "structured/ranking/settings.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

namespace bridle {

// The sum, or the mean, over all pairs with y_i > y_j of max(0, 1 - (s_i - s_j)): each pair is an
// output of its own. Counted by one sweep up and one down with a Fenwick tree over the grades:
// O(n log n). With two grades the mean is the ROC loss (Joachims, ICML 2005).
enum class OverPairs { mean, sum };

template <OverPairs over> class PairsLosses {
public:
  explicit PairsLosses(const RankingSettings &) {}

  double answer(const double *scores, const double *grades, int64_t n, double *coefficients) const {
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int64_t i, int64_t j) { return scores[i] < scores[j]; });
    const auto [grade, n_grades, n_pairs] = ranks(grades, n);
    // A pair is violated where score < reach: one comparison of the same two numbers, seen from
    // either side, so that both counts agree to the last pair.
    std::vector<double> reach(n);
    for (int64_t i = 0; i < n; ++i)
      reach[i] = scores[i] + 1.0;
    const double scale = over == OverPairs::mean ? 1.0 / static_cast<double>(n_pairs) : 1.0;
    std::vector<int64_t> tree(n_grades + 1, 0);
    int64_t violated = 0;
    for (int64_t t = 0, u = 0; t < n; ++t) { // i as the lower of a pair
      const int64_t i = order[t];
      for (; u < n && scores[order[u]] < reach[i]; ++u)
        add(tree, grade[order[u]]);
      const int64_t higher = u - count(tree, grade[i]);
      violated += higher;
      coefficients[i] = -scale * static_cast<double>(higher);
    }
    std::fill(tree.begin(), tree.end(), 0);
    for (int64_t t = n - 1, u = n - 1; t >= 0; --t) { // i as the higher of a pair
      const int64_t i = order[t];
      for (; u >= 0 && scores[i] < reach[order[u]]; --u)
        add(tree, grade[order[u]]);
      coefficients[i] += scale * static_cast<double>(count(tree, grade[i] - 1));
    }
    return scale * static_cast<double>(violated);
  }

private:
  struct Ranks {
    std::vector<int64_t> grade; // 1.. in rising order
    int64_t n_grades, n_pairs;
  };

  static Ranks ranks(const double *grades, int64_t n) {
    std::vector<double> levels(grades, grades + n);
    std::sort(levels.begin(), levels.end());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    Ranks result{std::vector<int64_t>(n), static_cast<int64_t>(levels.size()), 0};
    std::vector<int64_t> counts(levels.size() + 1, 0);
    for (int64_t i = 0; i < n; ++i) {
      result.grade[i] =
          1 + (std::lower_bound(levels.begin(), levels.end(), grades[i]) - levels.begin());
      ++counts[result.grade[i]];
    }
    for (int64_t g = 1, before = 0; g <= result.n_grades; before += counts[g++])
      result.n_pairs += before * counts[g];
    return result;
  }

  static void add(std::vector<int64_t> &tree, int64_t g) {
    for (; g < static_cast<int64_t>(tree.size()); g += g & -g)
      ++tree[g];
  }
  // How many were added of grade at most g.
  static int64_t count(const std::vector<int64_t> &tree, int64_t g) {
    int64_t sum = 0;
    for (; g > 0; g -= g & -g)
      sum += tree[g];
    return sum;
  }
};

struct PairsLoss : PairsLosses<OverPairs::mean> {
  static constexpr std::string_view name = "pairs";
  static constexpr bool graded = true;
  using PairsLosses::PairsLosses;
};

struct PairsSumLoss : PairsLosses<OverPairs::sum> {
  static constexpr std::string_view name = "pairs-sum";
  static constexpr bool graded = true;
  using PairsLosses::PairsLosses;
};

struct RocLoss : PairsLosses<OverPairs::mean> {
  static constexpr std::string_view name = "roc";
  static constexpr bool graded = false;
  using PairsLosses::PairsLosses;
};

} // namespace bridle
