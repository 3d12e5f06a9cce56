#include "check.hpp"

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/places.hpp"
#include "losses.hpp"

#include <cstdlib>
#include <numeric>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace bridle;

// xoshiro256++, its state filled by splitmix64 from 0: the numbers that every implementation gives.
void random_numbers_are_the_same_everywhere() {
  Rng rng(0);
  CHECK(rng.next() == 5987356902031041503ULL);
  CHECK(rng.next() == 7051070477665621255ULL);
  CHECK(rng.next() == 6633766593972829180ULL);
  for (int k = 0; k < 1000; ++k) {
    const double u = rng.uniform();
    CHECK(rng.below(7) < 7);
    CHECK(u >= 0 && u < 1);
  }
  std::vector<int> items(100);
  std::iota(items.begin(), items.end(), 0);
  rng.shuffle(std::span(items));
  CHECK(!std::is_sorted(items.begin(), items.end()));
  std::sort(items.begin(), items.end());
  for (int k = 0; k < 100; ++k)
    CHECK(items[k] == k);
}

void every_block_is_done_once() {
  for (const int n_threads : {1, 2, 5}) {
    std::vector<int> done(1000, 0);
    for_blocks(1000, n_threads, [&](int64_t block) { ++done[block]; });
    CHECK(std::all_of(done.begin(), done.end(), [](int n) { return n == 1; }));
    bool thrown = false;
    try {
      for_blocks(10, n_threads, [](int64_t) { throw std::runtime_error("no"); });
    } catch (const std::runtime_error &) {
      thrown = true;
    }
    CHECK(thrown);
    // A round sees what all blocks of the round before have written.
    std::vector<int64_t> level(8, 0);
    in_rounds(
        20, 8, n_threads, [&](int64_t round, int64_t block) { CHECK(level[block] == round); },
        [&](int64_t block) { ++level[block]; }, [] {});
    CHECK(std::all_of(level.begin(), level.end(), [](int64_t n) { return n == 20; }));
  }
}

void every_item_is_done_once() {
  for (const int64_t n_items : {0, 1, 99, 100, 1001}) {
    std::vector<int> done(n_items, 0);
    for_ranges(n_items, 100, 3, [&](Range range) {
      for (int64_t i = range.begin; i < range.end; ++i)
        ++done[i];
    });
    CHECK(std::all_of(done.begin(), done.end(), [](int n) { return n == 1; }));
  }
}

// Loops within loops, and loops of several callers: the threads at work at one time.
void no_more_threads_work_than_were_asked_for() {
  std::atomic<int64_t> here{0}, most{0}, done{0};
  const auto count = [&](int64_t) {
    const int64_t now = ++here;
    for (int64_t before = most; before < now && !most.compare_exchange_weak(before, now);) {
    }
    std::this_thread::yield();
    ++done;
    --here;
  };
  const auto nested = [&](int64_t) { for_blocks(50, 5, count); };
  for (const int64_t n_blocks : {1, 2, 3, 7}) {
    done = most = 0;
    for_blocks(n_blocks, 5, nested);
    CHECK(done == 50 * n_blocks && most <= 5);
  }
  done = most = 0;
  const int64_t together = std::max(5, hardware_threads());
  {
    std::vector<std::thread> callers;
    for (int k = 0; k < 3; ++k)
      callers.emplace_back([&] {
        for (int again = 0; again < 20; ++again)
          nested(0);
      });
    for (std::thread &caller : callers)
      caller.join();
  }
  CHECK(done == 3 * 20 * 50);
  CHECK(most <= together + 2); // each caller works, however many there are

  // Threads that take places of five leave two to each other's helpers.
  done = most = 0;
  {
    Places places(5);
    std::vector<std::thread> callers;
    for (int k = 0; k < 3; ++k)
      callers.emplace_back([&] {
        Place place(places);
        for (int again = 0; again < 20; ++again) {
          place.take();
          nested(0);
          place.leave();
        }
      });
    for (std::thread &caller : callers)
      caller.join();
  }
  CHECK(done == 3 * 20 * 50);
  // Who comes when helpers have been given away works all the same.
  CHECK(most <= 5 + 2);
}

#ifndef _WIN32
// A child process has none of its parent's threads; a parent keeps working after a fork.
void a_process_may_fork() {
  std::atomic<int64_t> sum{0};
  const auto add = [&](int64_t block) { sum += block; };
  for (int generation = 0; generation < 3; ++generation) {
    for_blocks(10, 4, add);
    const pid_t child = fork();
    if (child == 0) {
      for_blocks(10, 4, add);
      std::_Exit(sum == 45 * (generation + 2) ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  for_blocks(10, 4, add);
  CHECK(sum == 4 * 45);
}
#endif

void large_arrays_shrink_and_keep_what_they_hold() {
  Buffer<int64_t> buffer(size_t{1} << 20); // 8 MiB: in huge pages
  std::iota(buffer.data(), buffer.data() + buffer.size(), int64_t{0});
  buffer.shrink(1000);
  CHECK(buffer.size() == 1000 && buffer.data()[999] == 999);
  LargeVector<double> vector(size_t{1} << 20, 1.5);
  vector.resize(size_t{3} << 20);
  CHECK(vector[(1 << 20) - 1] == 1.5 && vector.back() == 0);
}

void losses_are_found_by_name() {
  for (const std::string &name : Losses::names())
    std::visit(
        [&](auto loss) {
          CHECK(loss.name == name);
          // Fenchel-Young: the gap of a row is never negative inside its box.
          for (double p = -2; p <= 2; p += 0.25)
            for (double alpha = std::max(-3.0, loss.lower(1.5));
                 alpha <= std::min(3.0, loss.upper(1.5)); alpha += 0.25)
              CHECK(loss.gap(p, alpha, 1.5) >= 0);
        },
        loss_from_name(name));
  bool thrown = false;
  try {
    (void)loss_from_name("zero-one");
  } catch (const std::invalid_argument &) {
    thrown = true;
  }
  CHECK(thrown);
}

int main() {
  random_numbers_are_the_same_everywhere();
  every_block_is_done_once();
  every_item_is_done_once();
  no_more_threads_work_than_were_asked_for();
#ifndef _WIN32
  a_process_may_fork();
#endif
  large_arrays_shrink_and_keep_what_they_hold();
  losses_are_found_by_name();
}
