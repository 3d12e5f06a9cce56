// Exact oracles of ranking losses: for each query, the output y' that maximises
//
//     Delta(y') - w.psi(y'),   psi(y') = Psi(x, y) - Psi(x, y') = sum_i coefficient_i x_i,
//
// from the documents' scores s_i = w.x_i. All feature maps here are sums of documents, so that an
// answer is one coefficient for each document and a loss. docs/ranking.md has formulas and papers.
#pragma once

#include "base/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace bridle {

// The documents of one query by relevance (grade > 0 or not), each list by falling score.
struct Split {
  std::vector<int64_t> relevant, others; // positions within the query
  std::vector<double> a, b;              // their scores

  Split(const double *scores, const double *grades, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      (grades[i] > 0 ? relevant : others).push_back(i);
    a = sort(relevant, scores);
    b = sort(others, scores);
  }

  int64_t n_relevant() const { return static_cast<int64_t>(a.size()); }
  int64_t n_others() const { return static_cast<int64_t>(b.size()); }

private:
  static std::vector<double> sort(std::vector<int64_t> &list, const double *scores) {
    std::sort(list.begin(), list.end(), [&](int64_t i, int64_t j) {
      return scores[i] != scores[j] ? scores[i] > scores[j] : i < j;
    });
    std::vector<double> sorted(list.size());
    for (size_t t = 0; t < list.size(); ++t)
      sorted[t] = scores[list[t]];
    return sorted;
  }
};

class RankingLoss {
public:
  virtual ~RankingLoss() = default;
  // Writes the coefficients of psi(y') and returns Delta(y') for the most violated y'.
  virtual double answer(const double *scores, const double *grades, int64_t n,
                        double *coefficients) const = 0;
};

// Rankings with Psi(x, y') = 1/(P N) sum over relevant i, other j of y'_ij (x_i - x_j), y'_ij = +1
// where i is above j and -1 elsewhere. above[i] = others above relevant i, below[j] = relevant ones
// below other j.
inline void pair_coefficients(const Split &q, const std::vector<int64_t> &above,
                              const std::vector<int64_t> &below, double *coefficients) {
  const double scale =
      2.0 / (static_cast<double>(q.n_relevant()) * static_cast<double>(q.n_others()));
  for (size_t i = 0; i < above.size(); ++i)
    coefficients[q.relevant[i]] = scale * static_cast<double>(above[i]);
  for (size_t j = 0; j < below.size(); ++j)
    coefficients[q.others[j]] = -scale * static_cast<double>(below[j]);
}

// The loss 1 - sum_i gain(i, r_i), where r_i is the number of others above the i-th relevant
// document and gain(k, r - 1) - gain(k, r) falls in r. Inserting the j-th other document above the
// relevant ones k..P changes the objective by
//
//     sum over k.. of delta_j(k) = gain(k, j-1) - gain(k, j) - 2/(P N) (a_k - b_j),
//
// for each j on its own. delta_j(k) falls in j, so the best places rise in j: divide and conquer
// takes O(P log N + N) (greedy interleaving: Yue, Finley, Radlinski & Joachims, SIGIR 2007).
template <class Gain> class Interleaving {
public:
  Interleaving(const Split &q, const Gain &gain)
      : q_(q), gain_(gain), place_(q.b.size()),
        scale_(2.0 / (static_cast<double>(q.n_relevant()) * static_cast<double>(q.n_others()))) {
    solve(1, q.n_others(), 1, q.n_relevant() + 1);
  }

  double answer(double *coefficients) const {
    const int64_t P = q_.n_relevant(), N = q_.n_others();
    std::vector<int64_t> above(P), below(N);
    double loss = 0;
    for (int64_t i = 1, j = 0; i <= P; ++i) {
      while (j < N && place_[j] <= i)
        ++j;
      above[i - 1] = j;
      loss += gain_(i, 0) - gain_(i, j);
    }
    for (int64_t j = 0; j < N; ++j)
      below[j] = P + 1 - place_[j];
    pair_coefficients(q_, above, below, coefficients);
    return loss;
  }

private:
  const Split &q_;
  const Gain &gain_;
  std::vector<int64_t> place_; // other j stands just above relevant place_[j-1]; P + 1: below all
  double scale_;

  // Others jlo..jhi, whose places are known to lie in klo..khi.
  void solve(int64_t jlo, int64_t jhi, int64_t klo, int64_t khi) {
    while (jlo <= jhi) {
      const int64_t j = jlo + (jhi - jlo) / 2;
      const double b = q_.b[j - 1];
      double sum = 0, top = 0;
      int64_t best = khi;
      for (int64_t k = khi - 1; k >= klo; --k) {
        sum += gain_(k, j - 1) - gain_(k, j) - scale_ * (q_.a[k - 1] - b);
        if (sum > top) {
          top = sum;
          best = k;
        }
      }
      place_[j - 1] = best;
      solve(jlo, j - 1, klo, best);
      jlo = j + 1;
      klo = best;
    }
  }
};

// 1 - average precision.
class MapLoss final : public RankingLoss {
public:
  double answer(const double *scores, const double *grades, int64_t n,
                double *coefficients) const override {
    const Split q(scores, grades, n);
    const double P = static_cast<double>(q.n_relevant());
    const auto gain = [P](int64_t i, int64_t r) {
      return static_cast<double>(i) / (P * static_cast<double>(i + r));
    };
    return Interleaving(q, gain).answer(coefficients);
  }
};

// 1 - NDCG over the whole list, binary gains, discount 1 / log2(1 + rank), which is convex
// (Chakrabarti, Khanna, Sawant & Bhattacharyya, KDD 2008).
class NdcgLoss final : public RankingLoss {
public:
  explicit NdcgLoss(int64_t longest) : discount_(longest + 1) {
    for (int64_t rank = 1; rank <= longest; ++rank)
      discount_[rank] = 1.0 / std::log2(1.0 + static_cast<double>(rank));
  }
  double answer(const double *scores, const double *grades, int64_t n,
                double *coefficients) const override {
    const Split q(scores, grades, n);
    const double ideal =
        std::accumulate(discount_.begin() + 1, discount_.begin() + 1 + q.n_relevant(), 0.0);
    const auto gain = [&](int64_t i, int64_t r) { return discount_[i + r] / ideal; };
    return Interleaving(q, gain).answer(coefficients);
  }

private:
  std::vector<double> discount_;
};

// 1 - (relevant among the first k) / min(k, P), with the same feature map. An answer has h relevant
// documents and k - h others at the top; within the top and within the rest, falling scores are
// best. Fewer than the h0 that the scores alone put there cost, in units of 2/(P N),
//
//     T(h) = sum over relevant i > h, others j <= k - h of max(0, a_i - b_j),
//
// from T(h0) = 0 on one row and one column at a time; more of them would lower loss and score.
class PrecisionLoss final : public RankingLoss {
public:
  explicit PrecisionLoss(int64_t k) : k_(k) {}

  double answer(const double *scores, const double *grades, int64_t n,
                double *coefficients) const override {
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
    merge(q, 0, h, 0, top, above, below);
    merge(q, h, P, top, N, above, below);
    for (int64_t i = h; i < P; ++i)
      above[i] += top;
    for (int64_t j = 0; j < top; ++j)
      below[j] += P - h;
    pair_coefficients(q, above, below, coefficients);
  }

  // Counts the pairs of relevant i and other j with b_j > a_i within two ranges.
  static void merge(const Split &q, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
                    std::vector<int64_t> &above, std::vector<int64_t> &below) {
    for (int64_t i = i0, j = j0; i < i1; ++i) {
      while (j < j1 && q.b[j] > q.a[i])
        ++j;
      above[i] = j - j0;
    }
    for (int64_t j = j0, i = i0; j < j1; ++j) {
      while (i < i1 && q.a[i] >= q.b[j])
        ++i;
      below[j] = i1 - i;
    }
  }
};

// The sum, or the mean, over all pairs with y_i > y_j of max(0, 1 - (s_i - s_j)): each pair is an
// output of its own. Counted by one sweep up and one down with a Fenwick tree over the grades:
// O(n log n). With two grades the mean is the ROC loss (Joachims, ICML 2005).
class PairsLoss final : public RankingLoss {
public:
  explicit PairsLoss(bool mean) : mean_(mean) {}

  double answer(const double *scores, const double *grades, int64_t n,
                double *coefficients) const override {
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
    const double scale = mean_ ? 1.0 / static_cast<double>(n_pairs) : 1.0;
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
  bool mean_;

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

// Labellings of all rows with Psi(x, y') = 1/(2 P) sum_i y'_i x_i (Joachims, ICML 2005). The best
// labelling with so many hits and so many false alarms takes the highest scores of either class.
inline void label_coefficients(const Split &q, int64_t hits, int64_t false_alarms,
                               double *coefficients) {
  const double scale = 1.0 / static_cast<double>(q.n_relevant());
  for (int64_t i = 0; i < q.n_relevant(); ++i)
    coefficients[q.relevant[i]] = i < hits ? 0.0 : scale;
  for (int64_t j = 0; j < q.n_others(); ++j)
    coefficients[q.others[j]] = j < false_alarms ? -scale : 0.0;
}

// 1 - F1 = 1 - 2 h / (P + h + f) for h hits and f false alarms. For each h the objective is concave
// in f: bisection, O(P log N) after sorting.
class F1Loss final : public RankingLoss {
public:
  double answer(const double *scores, const double *grades, int64_t n,
                double *coefficients) const override {
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

// 1 - precision at the break-even point: P rows are called positive, so that precision equals
// recall. Each exchange of a hit for a false alarm gains less than the one before.
class BreakEvenLoss final : public RankingLoss {
public:
  double answer(const double *scores, const double *grades, int64_t n,
                double *coefficients) const override {
    const Split q(scores, grades, n);
    const int64_t P = q.n_relevant(), most = std::min(P, q.n_others());
    int64_t exchanged = 0;
    while (exchanged < most && 1.0 - (q.a[P - 1 - exchanged] - q.b[exchanged]) > 0)
      ++exchanged;
    label_coefficients(q, P - exchanged, exchanged, coefficients);
    return static_cast<double>(exchanged) / static_cast<double>(P);
  }
};

inline std::unique_ptr<RankingLoss> ranking_loss(const std::string &name, int64_t k,
                                                 int64_t longest) {
  if (name == "map")
    return std::make_unique<MapLoss>();
  if (name == "ndcg")
    return std::make_unique<NdcgLoss>(longest);
  if (name == "precision")
    return std::make_unique<PrecisionLoss>(k);
  if (name == "pairs" || name == "roc")
    return std::make_unique<PairsLoss>(true);
  if (name == "pairs-sum")
    return std::make_unique<PairsLoss>(false);
  if (name == "f1")
    return std::make_unique<F1Loss>();
  if (name == "prbep")
    return std::make_unique<BreakEvenLoss>();
  throw std::invalid_argument("unknown ranking loss " + name);
}

// The oracle of every query of a data set. Queries of one grade only have nothing to be ranked:
// their answer is the truth.
class RankingOracle {
public:
  RankingOracle(const int64_t *offsets, int64_t n_queries, const double *grades,
                const std::string &loss, int64_t k)
      : offsets_(offsets, offsets + n_queries + 1), grades_(grades, grades + offsets[n_queries]),
        mixed_(n_queries) {
    const bool graded = loss == "pairs" || loss == "pairs-sum";
    int64_t longest = 0;
    for (int64_t q = 0; q < n_queries; ++q) {
      const auto begin = grades_.begin() + offsets[q], end = grades_.begin() + offsets[q + 1];
      longest = std::max<int64_t>(longest, end - begin);
      if (!graded)
        std::transform(begin, end, begin, [](double grade) { return grade > 0 ? 1.0 : 0.0; });
      mixed_[q] = std::adjacent_find(begin, end, std::not_equal_to{}) != end;
    }
    loss_ = ranking_loss(loss, k, longest);
  }

  int64_t n_queries() const { return static_cast<int64_t>(mixed_.size()); }
  int64_t n_documents() const { return static_cast<int64_t>(grades_.size()); }
  Range documents(int64_t q) const { return {offsets_[q], offsets_[q + 1]}; }

  // The answer for one query from its documents' scores.
  double answer(int64_t q, const double *scores, double *coefficients) const {
    const auto [begin, end] = documents(q);
    if (mixed_[q])
      return loss_->answer(scores, grades_.data() + begin, end - begin, coefficients);
    std::fill_n(coefficients, end - begin, 0.0);
    return 0.0;
  }

  // All answers, and hinges[q] = Delta - w.psi, which is at least 0.
  void answers(const double *scores, double *coefficients, double *losses, double *hinges,
               int n_threads) const {
    for_blocks(n_queries(), n_threads, [&](int64_t q) {
      const auto [begin, end] = documents(q);
      losses[q] = answer(q, scores + begin, coefficients + begin);
      double score = 0;
      for (int64_t i = begin; i < end; ++i)
        score += coefficients[i] * scores[i];
      hinges[q] = losses[q] - score;
    });
  }

private:
  std::vector<int64_t> offsets_;
  std::vector<double> grades_;
  std::vector<char> mixed_;
  std::unique_ptr<RankingLoss> loss_;
};

} // namespace bridle
