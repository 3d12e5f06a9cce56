// Loops by the threads of the pool (pool.hpp), which all may be called within each other's work.
// Blocks are fixed by the caller, and any number of threads works on them: results that are kept
// per block and reduced in block order do not depend on the number of threads.
//
//   for_blocks: work(block) for each block
//   for_ranges: work(range) for parts of many items that have nothing to do with each other
//   in_rounds:  rounds of such loops, too short for a call each
//
// The first exception of whichever thread is passed on to the caller.
#pragma once

#include "base/pool.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

namespace bridle {

// The half-open range of items that belongs to a block.
struct Range {
  int64_t begin, end;
};

inline Range block_range(int64_t n_items, int64_t n_blocks, int64_t block) {
  return {n_items * block / n_blocks, n_items * (block + 1) / n_blocks};
}

// Keeps the first exception of several threads; after that, nothing more is done.
class FirstError {
public:
  template <class Step> void guard(Step &&step) noexcept {
    if (failed_.load(std::memory_order_relaxed))
      return;
    try {
      step();
    } catch (...) {
      const std::lock_guard guard(lock_);
      if (!error_)
        error_ = std::current_exception();
      failed_ = true;
    }
  }
  void pass_on() const {
    if (error_)
      std::rethrow_exception(error_);
  }

private:
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::mutex lock_;
};

// Calls work(block) once for each block in 0..n_blocks-1.
template <class Work> void for_blocks(int64_t n_blocks, int n_threads, Work &&work) {
  if (n_blocks <= 1 || n_threads <= 1) {
    for (int64_t block = 0; block < n_blocks; ++block)
      work(block);
    return;
  }
  Crew crew(std::min<int64_t>(n_threads, n_blocks), n_threads);
  std::atomic<int64_t> next{0};
  FirstError error;
  crew.run([&](int64_t) noexcept {
    error.guard([&] {
      for (int64_t block; (block = next.fetch_add(1)) < n_blocks;)
        work(block);
    });
  });
  error.pass_on();
}

// Calls work(range) for ranges that are together 0..n_items, of `grain` items but for the last. As
// many items as that should keep a thread busy for ten microseconds or more.
template <class Work> void for_ranges(int64_t n_items, int64_t grain, int n_threads, Work &&work) {
  for_blocks((n_items + grain - 1) / grain, n_threads, [&](int64_t block) {
    work(Range{block * grain, std::min(n_items, (block + 1) * grain)});
  });
}

// Where the members of a crew wait for each other, again and again.
class Meeting {
public:
  explicit Meeting(const Crew &crew) : crew_(crew) {}

  // The last one to come calls `last` before anybody goes on.
  template <class Last> void wait(Last &&last) noexcept {
    const uint32_t now = turn_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == crew_.size()) {
      last();
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(now + 1);
      turn_.notify_all();
    } else {
      wait_while(turn_, now, crew_.awake());
    }
  }

private:
  const Crew &crew_;
  alignas(64) std::atomic<int64_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> turn_{0};
};

// In each round work(round, block) for all blocks, then exchange(block) for all, then conclude()
// once: nobody begins with one before all have done with the other. A block is always in the hands
// of the same thread.
template <class Work, class Exchange, class Conclude>
void in_rounds(int64_t n_rounds, int64_t n_blocks, int n_threads, Work &&work, Exchange &&exchange,
               Conclude &&conclude) {
  Crew crew(std::min<int64_t>(n_threads, n_blocks), n_threads);
  FirstError error;
  Meeting meeting(crew);
  // Who fails comes to the meetings all the same: the others would wait for ever.
  crew.run([&](int64_t member) noexcept {
    for (int64_t round = 0; round < n_rounds; ++round) {
      for (int64_t block = member; block < n_blocks; block += crew.size())
        error.guard([&] { work(round, block); });
      meeting.wait([] {});
      for (int64_t block = member; block < n_blocks; block += crew.size())
        error.guard([&] { exchange(block); });
      meeting.wait([&] { error.guard(conclude); });
    }
  });
  error.pass_on();
}

} // namespace bridle
