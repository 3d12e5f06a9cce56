#include "check.hpp"

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "losses.hpp"

#include <numeric>
#include <span>
#include <stdexcept>

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
            for (double alpha = 0; alpha <= std::min(3.0, loss.upper(1.5)); alpha += 0.25)
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
  large_arrays_shrink_and_keep_what_they_hold();
  losses_are_found_by_name();
}
