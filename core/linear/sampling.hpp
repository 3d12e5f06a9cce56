// The order in which stochastic solvers see the rows. What comes next is always known some rows
// ahead, so that it can be prefetched.
#pragma once

#include "base/rng.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace bridle {

enum class Sampling { iid, without_replacement, epochs };

inline Sampling sampling_from_name(std::string_view name) {
  if (name == "iid")
    return Sampling::iid;
  if (name == "without-replacement")
    return Sampling::without_replacement;
  if (name == "epochs")
    return Sampling::epochs;
  throw std::invalid_argument("unknown sampling: " + std::string(name));
}

class RowOrder {
public:
  // epochs: the order of buckets of `bucket` neighbouring rows is drawn anew for each epoch, so
  // that memory streams; a bucket of 1 is a full shuffle. without_replacement: the rows of each
  // batch are distinct, batches are independent.
  RowOrder(Sampling sampling, int64_t n_rows, int64_t batch, int64_t bucket)
      : sampling_(sampling), n_rows_(n_rows), batch_(batch), bucket_(bucket) {
    if (sampling == Sampling::iid)
      return;
    permutation_.resize(n_rows);
    std::iota(permutation_.begin(), permutation_.end(), int64_t{0});
    if (sampling == Sampling::epochs)
      buckets_.resize((n_rows + bucket - 1) / bucket);
  }

  int64_t next(Rng &rng) {
    if (position_ == upcoming_.size())
      refill(rng);
    return upcoming_[position_++];
  }

  // The row that comes `ahead` places later, or -1 where that is not decided yet.
  int64_t peek(size_t ahead) const {
    return position_ + ahead < upcoming_.size() ? upcoming_[position_ + ahead] : -1;
  }

private:
  void refill(Rng &rng) {
    position_ = 0;
    switch (sampling_) {
    case Sampling::iid:
      iid_.resize(512);
      for (auto &row : iid_)
        row = static_cast<int64_t>(rng.below(n_rows_));
      upcoming_ = iid_;
      break;
    case Sampling::without_replacement:
      // The head of a partial Fisher-Yates shuffle of whatever order the last one left.
      for (int64_t k = 0; k < batch_; ++k)
        std::swap(permutation_[k], permutation_[k + rng.below(n_rows_ - k)]);
      upcoming_ = std::span(permutation_).first(batch_);
      break;
    case Sampling::epochs:
      shuffle_buckets(rng);
      upcoming_ = permutation_;
      break;
    }
  }

  void shuffle_buckets(Rng &rng) {
    std::iota(buckets_.begin(), buckets_.end(), int64_t{0});
    rng.shuffle(std::span(buckets_));
    auto out = permutation_.begin();
    for (const int64_t b : buckets_)
      for (int64_t i = b * bucket_, end = std::min(i + bucket_, n_rows_); i < end; ++i)
        *out++ = i;
  }

  Sampling sampling_;
  int64_t n_rows_, batch_, bucket_;
  std::vector<int64_t> permutation_, buckets_, iid_;
  std::span<const int64_t> upcoming_;
  size_t position_ = 0;
};

} // namespace bridle
