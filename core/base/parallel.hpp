// Work on a fixed number of blocks by any number of threads. Results that are kept per block and
// reduced in block order do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

namespace bridle {

inline int hardware_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

// Threads that call work(1), work(2), ..., work(n_members - 1); if the system has no more, fewer.
template <class Work> std::vector<std::jthread> start_helpers(int64_t n_members, const Work &work) {
  std::vector<std::jthread> helpers;
  helpers.reserve(static_cast<size_t>(std::max<int64_t>(0, n_members - 1)));
  try {
    for (int64_t k = 1; k < n_members; ++k)
      helpers.emplace_back(std::cref(work), k);
  } catch (const std::exception &) { // no thread, or no memory for one
  }
  return helpers;
}

// Calls work(block) once for each block in 0..n_blocks-1. The first exception is passed on.
template <class Work> void for_blocks(int64_t n_blocks, int n_threads, Work &&work) {
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_lock;
  auto worker = [&](int64_t) {
    try {
      for (int64_t block; (block = next.fetch_add(1)) < n_blocks;)
        work(block);
    } catch (...) {
      const std::lock_guard guard(error_lock);
      if (!error)
        error = std::current_exception();
    }
  };
  std::vector<std::jthread> helpers = start_helpers(std::min<int64_t>(n_threads, n_blocks), worker);
  worker(0);
  helpers.clear(); // joins
  if (error)
    std::rethrow_exception(error);
}

// Where threads wait for each other, again and again, for times much shorter than it takes to put a
// thread to sleep and to wake it.
class Meeting {
public:
  // How many come may be said later, but before the first of them does.
  explicit Meeting(const std::atomic<int64_t> &n_members) : n_members_(n_members) {}

  // The last one to come calls `last` before anybody goes on.
  template <class Last> void wait(Last &&last) {
    const uint32_t now = turn_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_members_) {
      last();
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(now + 1, std::memory_order_release);
      turn_.notify_all();
      return;
    }
    for (int spin = 0; spin < patience; ++spin) {
      if (turn_.load(std::memory_order_acquire) != now)
        return;
      relax();
    }
    turn_.wait(now, std::memory_order_acquire);
  }

private:
  static constexpr int patience = 4096; // some 50 microseconds

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  const std::atomic<int64_t> &n_members_;
  std::atomic<int64_t> arrived_{0};
  std::atomic<uint32_t> turn_{0};
};

// In each round work(round, block) for all blocks, then exchange(block) for all, then conclude()
// once: nobody begins with one before all have done with the other. For rounds that are too short
// to start threads for each of them. The first exception is passed on.
template <class Work, class Exchange, class Conclude>
void in_rounds(int64_t n_rounds, int64_t n_blocks, int n_threads, Work &&work, Exchange &&exchange,
               Conclude &&conclude) {
  // How many there are is known, and told, when the system has given as many threads as it will.
  std::atomic<int64_t> n_members{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex error_lock;
  // Who fails comes to the meetings all the same: the others would wait for ever.
  auto unless_failed = [&](auto &&step) noexcept {
    if (failed)
      return;
    try {
      step();
    } catch (...) {
      const std::lock_guard guard(error_lock);
      if (!error)
        error = std::current_exception();
      failed = true;
    }
  };
  Meeting meeting(n_members);
  auto member = [&](int64_t first) {
    n_members.wait(0);
    for (int64_t round = 0; round < n_rounds; ++round) {
      for (int64_t block = first; block < n_blocks; block += n_members)
        unless_failed([&] { work(round, block); });
      meeting.wait([] {});
      for (int64_t block = first; block < n_blocks; block += n_members)
        unless_failed([&] { exchange(block); });
      meeting.wait([&] { unless_failed(conclude); });
    }
  };
  std::vector<std::jthread> helpers = start_helpers(std::min<int64_t>(n_threads, n_blocks), member);
  n_members = std::ssize(helpers) + 1;
  n_members.notify_all();
  member(0);
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
