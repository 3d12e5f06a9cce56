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
  // epochs: the order of buckets of `bucket` neighbouring rows is drawn anew for each epoch, and
  // several distant buckets are read side by side, a row of each in turn: memory streams, and rows
  // that follow each other are no neighbours, which in a sorted file are alike. A bucket of 1 is a
  // full shuffle. without_replacement: the rows of each batch are distinct, batches independent.
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

  // Asks for what the visits to come will read: a row some places before its turn, and earlier than
  // that where it begins and what else belongs to it, one number in each of these arrays.
  template <class Rows, class... PerRow>
  void prefetch(const Rows &rows, const PerRow *...per_row) const {
    if (position_ + places_ahead >= upcoming_.size())
      return;
    rows.prefetch(upcoming_[position_ + rows_ahead]);
    const int64_t later = upcoming_[position_ + places_ahead];
    rows.prefetch_place(later);
    (__builtin_prefetch(per_row + later), ...);
  }

private:
  static constexpr size_t rows_ahead = 8, places_ahead = 16;

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

  // Buckets that are read side by side: enough to look like a draw from all rows, few enough for
  // their rows to be in the cache, and their pages in the TLB, when their turn comes.
  static constexpr size_t side_by_side = 128;

  void shuffle_buckets(Rng &rng) {
    std::iota(buckets_.begin(), buckets_.end(), int64_t{0});
    rng.shuffle(std::span(buckets_));
    auto out = permutation_.begin();
    // Parts of about equal size, or the last one might be a bucket on its own.
    const size_t n = buckets_.size(), parts = std::max<size_t>(1, n / side_by_side);
    for (size_t part = 0; part < parts; ++part)
      out = interleave(
          std::span(buckets_).subspan(n * part / parts, n * (part + 1) / parts - n * part / parts),
          out);
  }

  // One row of each of these buckets, then another one of each, and so on. Each bucket begins with
  // another place: rows at the same place of all of them would compete for the same few sets of a
  // cache, as buckets are often a multiple of a power of two long.
  template <class Out> Out interleave(std::span<const int64_t> buckets, Out out) const {
    for (int64_t k = 0; k < bucket_; ++k) {
      int64_t place = k;
      for (const int64_t b : buckets) {
        if (const int64_t i = b * bucket_ + place; i < n_rows_)
          *out++ = i;
        if (++place == bucket_)
          place = 0;
      }
    }
    return out;
  }

  Sampling sampling_;
  int64_t n_rows_, batch_, bucket_;
  std::vector<int64_t> permutation_, buckets_, iid_;
  std::span<const int64_t> upcoming_;
  size_t position_ = 0;
};

} // namespace bridle
