// The order of an epoch: buckets of neighbouring rows. The rows stay in row order and only the
// buckets are permuted, so memory streams, at the same number of epochs as a full shuffle.
#pragma once

#include "base/parallel.hpp"
#include "base/rng.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

namespace bridle {

class Buckets {
public:
  // Every row once, in random order.
  void shuffle(Rng &rng, int64_t n_rows, int64_t bucket) {
    n_rows_ = n_rows;
    bucket_ = bucket;
    order_.resize((n_rows + bucket - 1) / bucket);
    std::iota(order_.begin(), order_.end(), int64_t{0});
    rng.shuffle(std::span(order_));
    next_ = 0;
  }

  int64_t size() const { return std::ssize(order_); }
  int64_t bucket() const { return bucket_; }
  int64_t first_row(int64_t b) const { return order_[b] * bucket_; }
  int64_t end_row(int64_t b) const { return std::min(first_row(b) + bucket_, n_rows_); }

  Range places_of(Range buckets) const { return {buckets.begin * bucket_, buckets.end * bucket_}; }

  int64_t rows_of(Range buckets) const {
    int64_t rows = 0;
    for (int64_t b = buckets.begin; b < buckets.end; ++b)
      rows += end_row(b) - first_row(b);
    return rows;
  }

  // The next share of the epoch, which is over if `between_epochs` then holds.
  Range next(double share) {
    const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(size())));
    const Range range{next_, std::min(size(), next_ + wanted)};
    next_ = range.end == size() ? 0 : range.end;
    return range;
  }
  bool between_epochs() const { return next_ == 0; }
  void restart() { next_ = 0; }

private:
  std::vector<int64_t> order_;
  int64_t n_rows_ = 0, bucket_ = 1, next_ = 0;
};

} // namespace bridle
