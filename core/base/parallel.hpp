// Loops by the threads of the pool (pool.hpp), which all may be called within each other's work.
// Blocks are fixed by the caller, and any number of threads works on them: results that are kept
// per block and reduced in block order do not depend on the number of threads.
//
//   for_blocks: work(block) for each block
//   for_ranges: work(range) for parts of many items that have nothing to do with each other
//   together:   such loops one after the other, too short for a call each
//   in_rounds:  rounds of such loops
//
// The first exception of whichever thread is passed on to the caller.
#pragma once

#include "base/function_ref.hpp"
#include "base/pool.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

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
  void guard(FunctionRef<void()> step) noexcept {
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
  bool happened() const { return failed_.load(std::memory_order_relaxed); }
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
inline void for_blocks(int64_t n_blocks, int n_threads, FunctionRef<void(int64_t)> work) {
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
inline void for_ranges(int64_t n_items, int64_t grain, int n_threads,
                       FunctionRef<void(Range)> work) {
  for_blocks((n_items + grain - 1) / grain, n_threads, [&](int64_t block) {
    work(Range{block * grain, std::min(n_items, (block + 1) * grain)});
  });
}

// Where the members of a crew wait for each other, again and again. They stand in a tree: each
// tells the one above when it and those below have come, and those below when all may go on. (A
// counter for all of them takes ten times as long with sixteen: it would wander from one to the
// next.)
class Meeting {
public:
  explicit Meeting(const Crew &crew) : crew_(crew), seats_(crew.size()) {}

  // turn: 1 the first time that this member comes, then 2 and so on. When all have come, one of
  // them calls `last` before anybody goes on.
  void wait(int64_t member, uint32_t turn, FunctionRef<void()> last) noexcept {
    const int64_t first = 4 * member + 1, end = std::min(first + 4, crew_.size());
    for (int64_t below = first; below < end; ++below)
      wait_while(seats_[below].come, turn - 1, crew_.patience());
    if (member == 0) {
      last();
    } else {
      tell(seats_[member].come, turn);
      wait_while(seats_[member].told, turn - 1, crew_.patience());
    }
    for (int64_t below = first; below < end; ++below)
      tell(seats_[below].told, turn);
  }

private:
  struct Seat {
    alignas(64) std::atomic<uint32_t> come{0}; // the turn to which it has come
    alignas(64) std::atomic<uint32_t> told{0}; // and that it was told to go on from
  };

  static void tell(std::atomic<uint32_t> &word, uint32_t turn) {
    word.store(turn);
    word.notify_one();
  }

  const Crew &crew_;
  std::vector<Seat> seats_;
};

// One of those who do `together` what is to be done.
class Member {
public:
  Member(int64_t number, int64_t n_blocks, const Crew &crew, Meeting &meeting, FirstError &error,
         bool &going)
      : number(number), size(crew.size()), n_blocks_(n_blocks), meeting_(meeting), error_(error),
        going_(going) {}

  const int64_t number, size; // 0..size-1, and how many there are

  // step(block) for the blocks of this member, which are the same each time.
  void each(FunctionRef<void(int64_t)> step) {
    for (int64_t block = number; block < n_blocks_; block += size)
      error_.guard([&] { step(block); });
  }
  void once(FunctionRef<void()> step) { error_.guard(step); }

  // Nobody goes on before all have come; one of them calls `last` before that.
  void meet(FunctionRef<void()> last) {
    meeting_.wait(number, ++turn_, [&] {
      error_.guard(last);
      going_ = !error_.happened();
    });
  }
  void meet() {
    meet([] {});
  }

  // False: something has failed, and all members know since they have last met.
  bool going() const { return going_; }

private:
  int64_t n_blocks_;
  uint32_t turn_ = 0;
  Meeting &meeting_;
  FirstError &error_;
  bool &going_;
};

// work(member) by each member of a crew. All must meet equally often: what decides on that is
// written when they meet. Who fails comes to the meetings all the same.
inline void together(int64_t n_blocks, int n_threads, FunctionRef<void(Member &)> work) {
  Crew crew(std::min<int64_t>(n_threads, n_blocks), n_threads);
  FirstError error;
  Meeting meeting(crew);
  bool going = true;
  crew.run([&](int64_t number) noexcept {
    Member member(number, n_blocks, crew, meeting, error, going);
    work(member);
  });
  error.pass_on();
}

// In each round work(round, block) for all blocks, then exchange(block) for all, then conclude()
// once: nobody begins with one before all have done with the other. A block is always in the hands
// of the same thread.
inline void in_rounds(int64_t n_rounds, int64_t n_blocks, int n_threads,
                      FunctionRef<void(int64_t, int64_t)> work, FunctionRef<void(int64_t)> exchange,
                      FunctionRef<void()> conclude) {
  together(n_blocks, n_threads, [&](Member &member) {
    for (int64_t round = 0; round < n_rounds && member.going(); ++round) {
      member.each([&](int64_t block) { work(round, block); });
      member.meet();
      member.each(exchange);
      member.meet(conclude);
    }
  });
}

} // namespace bridle
