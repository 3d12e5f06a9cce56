#include "check.hpp"

#include "linear/sampling.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace bridle;

static std::vector<int64_t> epoch(RowOrder &order, Rng &rng, int64_t n) {
  std::vector<int64_t> rows(n);
  for (auto &row : rows)
    row = order.next(rng);
  return rows;
}

void an_epoch_shows_every_row_once() {
  Rng rng(3);
  for (const int64_t n : {1, 31, 32, 33, 5000})
    for (const int64_t bucket : {1, 7, 32, 6000}) {
      RowOrder order(Sampling::epochs, n, 1, bucket);
      for (int k = 0; k < 2; ++k) {
        auto rows = epoch(order, rng, n);
        std::sort(rows.begin(), rows.end());
        for (int64_t i = 0; i < n; ++i)
          CHECK(rows[i] == i);
      }
    }
}

// In a sorted file neighbours are alike: a stretch of rows must come from all over it.
void neighbours_in_the_file_are_none_in_an_epoch() {
  constexpr int64_t n = 10'000, bucket = 32, stretch = 64;
  Rng rng(5);
  RowOrder order(Sampling::epochs, n, 1, bucket);
  const auto rows = epoch(order, rng, n);
  for (int64_t k = 0; k + stretch <= n; k += stretch) {
    std::vector<int64_t> buckets;
    for (int64_t j = k; j < k + stretch; ++j)
      buckets.push_back(rows[j] / bucket);
    std::sort(buckets.begin(), buckets.end());
    buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
    CHECK(std::ssize(buckets) > stretch * 3 / 4);
  }
}

int main() {
  an_epoch_shows_every_row_once();
  neighbours_in_the_file_are_none_in_an_epoch();
}
