// The best path through a chain of labels:
//
//   max_{y_1..y_T}  sum_t scores[t][y_t] + sum_{t > 1} transitions[y_{t-1}][y_t]
//
// in O(T K^2) (Viterbi 1967). Ties go to the smaller label, so that the answer is unique.
#pragma once

#include "base/cpu.hpp"

#include <cstdint>
#include <type_traits>
#include <vector>

namespace bridle {

// As wide as Real, so that compilers compare and blend in the same lanes.
template <class Real> using LabelBeside = std::conditional_t<sizeof(Real) == 4, int32_t, int64_t>;

// best[k] = max_j before[j] + transitions[j][k], from[k] = the first j that reaches it. For the
// machine at hand: without instructions that blend, compilers leave this loop to single numbers.
template <class Real>
BRIDLE_WIDEST void viterbi_step(const Real *__restrict before, const Real *__restrict transitions,
                                int64_t K, int64_t stride, Real *__restrict best,
                                LabelBeside<Real> *__restrict from) {
  for (int64_t k = 0; k < stride; ++k) {
    best[k] = before[0] + transitions[k];
    from[k] = 0;
  }
  for (int64_t j = 1; j < K; ++j) {
    const Real base = before[j];
    const Real *__restrict row = transitions + j * stride;
#pragma omp simd
    for (int64_t k = 0; k < stride; ++k) {
      const Real candidate = base + row[k];
      const bool better = candidate > best[k];
      best[k] = better ? candidate : best[k];
      from[k] = better ? static_cast<LabelBeside<Real>>(j) : from[k];
    }
  }
}

// K is the number of labels, stride >= K the distance between rows of both tables. Without
// transitions (nullptr) every position is decided on its own.
template <class Real> class Viterbi {
public:
  // Fills path[0..length-1] and returns the best sum.
  Real best_path(const Real *scores, const Real *transitions, int64_t length, int64_t K,
                 int64_t stride, int32_t *path) {
    if (length == 0)
      return 0;
    if (!transitions)
      return independent(scores, length, K, stride, path);
    from_.resize(static_cast<size_t>(length * stride));
    now_.assign(scores, scores + stride);
    next_.resize(static_cast<size_t>(stride));
    for (int64_t t = 1; t < length; ++t) {
      viterbi_step(now_.data(), transitions, K, stride, next_.data(), from_.data() + t * stride);
      const Real *here = scores + t * stride;
      for (int64_t k = 0; k < K; ++k)
        now_[k] = next_[k] + here[k];
    }
    int64_t last = 0;
    for (int64_t k = 1; k < K; ++k)
      last = now_[k] > now_[last] ? k : last;
    const Real best = now_[last];
    for (int64_t t = length - 1; t >= 0; --t) {
      path[t] = static_cast<int32_t>(last);
      last = t > 0 ? static_cast<int64_t>(from_[t * stride + last]) : 0;
    }
    return best;
  }

private:
  using Label = LabelBeside<Real>;

  static Real independent(const Real *scores, int64_t length, int64_t K, int64_t stride,
                          int32_t *path) {
    Real sum = 0;
    for (int64_t t = 0; t < length; ++t) {
      const Real *here = scores + t * stride;
      int64_t top = 0;
      for (int64_t k = 1; k < K; ++k)
        top = here[k] > here[top] ? k : top;
      path[t] = static_cast<int32_t>(top);
      sum += here[top];
    }
    return sum;
  }

  std::vector<Real> now_, next_;
  std::vector<Label> from_;
};

} // namespace bridle
