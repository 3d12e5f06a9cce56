// The documents of a query, sorted, and the coefficients that an answer gives them.
#pragma once

#include <algorithm>
#include <cstdint>
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

// Falling scores for relevant i and others j of two ranges: how many of the other range are above
// and below each.
inline void interleave(const Split &q, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
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

} // namespace bridle
