// Rows of kernel values at the active columns, the least recently used dropped for a budget in
// bytes.
#pragma once

#include "base/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

namespace bridle {

template <class T> class RowCache {
public:
  RowCache(int64_t n_rows, int64_t budget) : entries_(n_rows), budget_(budget) {}

  // Null if the row is not here; else it is now the most recently used.
  T *find(int64_t row) {
    Entry &entry = entries_[row];
    if (!entry.values)
      return nullptr;
    order_.splice(order_.begin(), order_, entry.place);
    return entry.values.data();
  }

  // Room for a row of `size` values; others go if they must, the newest last.
  T *add(int64_t row, int64_t size) {
    const int64_t bytes = size * static_cast<int64_t>(sizeof(T));
    while (!order_.empty() && bytes_ + bytes > budget_)
      drop(order_.back());
    Entry &entry = entries_[row];
    entry.values = Buffer<T>(size);
    entry.bytes = bytes;
    order_.push_front(row);
    entry.place = order_.begin();
    bytes_ += bytes;
    peak_ = std::max(peak_, bytes_);
    return entry.values.data();
  }

  // Drops the oldest until the rest fit with `size` values each, and `spare` such rows beside them.
  void fit(int64_t size, int64_t spare) {
    const int64_t each = size * static_cast<int64_t>(sizeof(T));
    while (!order_.empty() && (static_cast<int64_t>(order_.size()) + spare) * each > budget_)
      drop(order_.back());
  }

  void drop(int64_t row) {
    Entry &entry = entries_[row];
    order_.erase(entry.place);
    bytes_ -= entry.bytes;
    entry = {};
  }

  // The values of a row that is here, to be shrunk or replaced: safe for different rows at once,
  // until `recount`.
  Buffer<T> &values(int64_t row) { return entries_[row].values; }
  // Every row now has `size` values.
  void recount(int64_t size) {
    bytes_ = 0;
    for (const int64_t row : order_)
      bytes_ += entries_[row].bytes = size * static_cast<int64_t>(sizeof(T));
    peak_ = std::max(peak_, bytes_);
  }

  std::vector<int64_t> rows() const { return {order_.begin(), order_.end()}; }
  int64_t peak_bytes() const { return peak_; }

private:
  struct Entry {
    Buffer<T> values;
    int64_t bytes = 0;
    std::list<int64_t>::iterator place;
  };

  std::vector<Entry> entries_;
  std::list<int64_t> order_; // the most recently used first
  int64_t budget_, bytes_ = 0, peak_ = 0;
};

} // namespace bridle
