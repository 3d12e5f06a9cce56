// Work on a fixed number of blocks by any number of threads. Results that are kept per block and
// reduced in block order do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace bridle {

inline int hardware_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

// Calls work(block) once for each block in 0..n_blocks-1. The first exception is passed on.
template <class Work> void for_blocks(int64_t n_blocks, int n_threads, Work &&work) {
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_lock;
  auto worker = [&] {
    try {
      for (int64_t block; (block = next.fetch_add(1)) < n_blocks;)
        work(block);
    } catch (...) {
      const std::lock_guard guard(error_lock);
      if (!error)
        error = std::current_exception();
    }
  };
  std::vector<std::jthread> helpers;
  const int64_t n_helpers = std::min<int64_t>(n_threads, n_blocks) - 1;
  for (int64_t k = 0; k < n_helpers; ++k)
    helpers.emplace_back(worker);
  worker();
  helpers.clear(); // joins
  if (error)
    std::rethrow_exception(error);
}

// The half-open range of items that belongs to a block.
struct Range {
  int64_t begin, end;
};

inline Range block_range(int64_t n_items, int64_t n_blocks, int64_t block) {
  return {n_items * block / n_blocks, n_items * (block + 1) / n_blocks};
}

} // namespace bridle
