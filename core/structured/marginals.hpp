// What each label at each position of a chain is worth, over all paths that go through it:
//
//   out[t][k] = (+)_{y: y_t = k}  sum_u scores[u][y_u] + sum_{u > 1} transitions[y_{u-1}][y_u],
//
// where (+) is the maximum (max-marginals) or log sum exp (logarithms of marginals, but for a
// constant). One pass forwards, one backwards, O(T K^2).
#pragma once

#include "structured/chain.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

struct Largest {
  static double of(const std::vector<double> &terms) {
    return *std::max_element(terms.begin(), terms.end());
  }
};

struct LogSumExp {
  static double of(const std::vector<double> &terms) {
    const double top = Largest::of(terms);
    double sum = 0;
    for (const double term : terms)
      sum += std::exp(term - top);
    return top + std::log(sum);
  }
};

// `out` holds the scores, and then the answer.
template <class Add> class Through {
public:
  Through(const double *transitions, int64_t K)
      : transitions_(transitions), K_(K), after_(static_cast<size_t>(K)),
        before_(static_cast<size_t>(K)), terms_(static_cast<size_t>(K)) {}

  void fill(double *out, int64_t length) {
    forward_.assign(out, out + length * K_);
    for (int64_t t = 1; t < length; ++t)
      for (int64_t k = 0; k < K_; ++k)
        at(t)[k] += sum([&](int64_t j) { return at(t - 1)[j] + transition(j, k); });

    std::fill(after_.begin(), after_.end(), 0.0); // what follows each label at t
    for (int64_t t = length - 1; t >= 0; --t) {
      double *here = out + t * K_;
      for (int64_t k = 0; k < K_; ++k)
        before_[k] = here[k] + after_[k];
      for (int64_t k = 0; k < K_; ++k)
        here[k] = at(t)[k] + after_[k];
      for (int64_t k = 0; k < K_; ++k)
        after_[k] = sum([&](int64_t j) { return transition(k, j) + before_[j]; });
    }
  }

private:
  double *at(int64_t t) { return forward_.data() + t * K_; }
  double transition(int64_t from, int64_t to) const {
    return transitions_ ? transitions_[from * K_ + to] : 0.0;
  }
  template <class Term> double sum(const Term &term) {
    for (int64_t j = 0; j < K_; ++j)
      terms_[j] = term(j);
    return Add::of(terms_);
  }

  const double *transitions_;
  int64_t K_;
  std::vector<double> forward_, after_, before_, terms_;
};

// out[row][k]: of every row of every sequence, in float64.
template <class Add, RowsLike Rows>
void chain_through(const Rows &rows, const ChainShape &shape, const double *w, double *out,
                   int n_threads) {
  const int64_t K = shape.K, n_blocks = std::clamp<int64_t>(shape.n_sequences / 16, 1, 256);
  const double *transitions = shape.transitions ? w + n_emission_rows(rows) * K : nullptr;
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    Through<Add> through(transitions, K);
    const auto [begin, end] = block_range(shape.n_sequences, n_blocks, block);
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t t = shape.begin(i); t < shape.begin(i) + shape.length(i); ++t)
        emission_scores(rows, t, w, K, out + t * K);
      through.fill(out + shape.begin(i) * K, shape.length(i));
    }
  });
}

} // namespace bridle
