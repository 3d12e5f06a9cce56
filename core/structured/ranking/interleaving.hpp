// The most violated ranking for losses that are sums over the relevant documents.
#pragma once

#include "structured/ranking/split.hpp"

#include <cstdint>
#include <vector>

namespace bridle {

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

} // namespace bridle
