// The best set of labels where labels also like or dislike each other:
//
//   max over y in {0, 1}^L of  sum_l y_l scores[l] + sum_{l < m} y_l y_m pairs[l][m],
//
// exactly, by branch and bound. With the first labels decided, field[m] is what label m would add
// now; a set of further labels adds at most
//
//   sum over open m of max(0, field[m] + sum over open k > m of max(0, pairs[m][k])).
//
// Where this cannot beat the best set found, the branch ends. The problem is NP-hard: with strong
// correlations the time may double with every label.
#pragma once

#include "base/parallel.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace bridle {

class LabelSets {
public:
  // pairs: n x n, symmetric, of which only the part above the diagonal is read.
  LabelSets(const double *pairs, int64_t n)
      : pairs_(pairs), n_(n), help_(static_cast<size_t>(n)),
        fields_(static_cast<size_t>((n + 1) * n)), set_(static_cast<size_t>(n)) {
    for (int64_t m = 0; m < n; ++m)
      for (int64_t k = m + 1; k < n; ++k)
        help_[m] += std::max(0.0, pairs[m * n + k]);
  }

  // Fills out[0..n-1] with 0 and 1 and returns the best sum. Ties go to the set found first, which
  // takes a label only where that is better at once.
  double best(const double *scores, uint8_t *out) {
    std::copy(scores, scores + n_, fields_.begin());
    std::fill_n(out, n_, uint8_t(0));
    best_ = 0; // of the empty set
    out_ = out;
    descend(0, 0.0);
    return best_;
  }

private:
  void descend(int64_t l, double value) {
    const double *field = fields_.data() + l * n_;
    if (l == n_) {
      if (value > best_) {
        best_ = value;
        std::copy(set_.begin(), set_.end(), out_);
      }
      return;
    }
    double bound = value;
    for (int64_t m = l; m < n_; ++m)
      bound += std::max(0.0, field[m] + help_[m]);
    if (bound <= best_)
      return;
    const uint8_t first = field[l] > 0 ? 1 : 0;
    for (const uint8_t y : {first, static_cast<uint8_t>(1 - first)}) {
      double *next = fields_.data() + (l + 1) * n_;
      for (int64_t m = l + 1; m < n_; ++m)
        next[m] = field[m] + (y ? pairs_[l * n_ + m] : 0.0);
      set_[l] = y;
      descend(l + 1, value + (y ? field[l] : 0.0));
    }
  }

  const double *pairs_;
  int64_t n_;
  std::vector<double> help_, fields_;
  std::vector<uint8_t> set_;
  double best_ = 0;
  uint8_t *out_ = nullptr;
};

// For every row of scores; values[i] is its best sum.
inline void best_label_sets(const double *scores, const double *pairs, int64_t n_rows, int64_t n,
                            uint8_t *sets, double *values, int n_threads) {
  const int64_t n_blocks = std::clamp<int64_t>(n_rows / 64, 1, 256);
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    LabelSets search(pairs, n);
    const auto [begin, end] = block_range(n_rows, n_blocks, block);
    for (int64_t i = begin; i < end; ++i)
      values[i] = search.best(scores + i * n, sets + i * n);
  });
}

} // namespace bridle
