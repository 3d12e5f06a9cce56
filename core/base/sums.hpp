// Sums whose rounding is known. Terms are added in blocks of 128 on eight lanes, the sums of blocks
// with the rounding of each addition kept, and those of 128 blocks, by threads, in the same way:
// each term goes through at most 26 roundings, its own product included, however many there are. So
// the result differs from the exact sum by at most 26 u sum |t| (u = 2^-53), but for products that
// underflow.
#pragma once

#include "base/cpu.hpp"
#include "base/function_ref.hpp"
#include "base/parallel.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

struct KnownSum {
  double sum;  // of all terms
  double size; // of their absolute values
};

// A running sum and what rounding has taken from it (Neumaier, 1974).
struct Compensated {
  double sum = 0, lost = 0;

  void add(double term) {
    const double next = sum + term;
    lost += std::abs(sum) >= std::abs(term) ? (sum - next) + term : (term - next) + sum;
    sum = next;
  }
  double value() const { return std::isfinite(sum) ? sum + lost : sum; }
};

inline constexpr int64_t lanes = 8, sum_block = 128;

// a_i b_i of up to a block of entries.
BRIDLE_WIDEST inline KnownSum inner_block(const double *a, const double *b, int64_t n) {
  double sum[lanes] = {}, size[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t k = 0; k < lanes; ++k) {
      const double term = a[i + k] * b[i + k];
      sum[k] += term;
      size[k] += std::abs(term);
    }
  for (int64_t k = 0; i + k < n; ++k) {
    const double term = a[i + k] * b[i + k];
    sum[k] += term;
    size[k] += std::abs(term);
  }
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) {
      sum[k] += sum[k + half];
      size[k] += size[k + half];
    }
  return {sum[0], size[0]};
}

// The same of a_i alone.
inline KnownSum sum_of_block(const double *a, int64_t n) {
  static constexpr auto ones = [] {
    struct {
      double of[sum_block];
    } made{};
    for (double &one : made.of)
      one = 1.0;
    return made;
  }();
  return inner_block(a, ones.of, n);
}

// K running sums.
template <size_t K> struct RunningSums {
  std::array<Compensated, K> each;

  void add(const std::array<double, K> &terms) {
    for (size_t k = 0; k < K; ++k)
      each[k].add(terms[k]);
  }
  std::array<double, K> values() const {
    std::array<double, K> found;
    for (size_t k = 0; k < K; ++k)
      found[k] = each[k].value();
    return found;
  }
};

// The sums of block(begin, n), what n terms from `begin` on come to. The parts that threads add up
// are the same for any number of them.
template <size_t K>
std::array<double, K> sums_of_blocks(int64_t n, int n_threads,
                                     FunctionRef<std::array<double, K>(int64_t, int64_t)> block) {
  constexpr int64_t grain = 128 * sum_block;
  std::vector<std::array<double, K>> parts((n + grain - 1) / grain);
  for_ranges(n, grain, n_threads, [&](Range range) {
    RunningSums<K> own;
    for (int64_t begin = range.begin; begin < range.end; begin += sum_block)
      own.add(block(begin, std::min(sum_block, range.end - begin)));
    parts[range.begin / grain] = own.values();
  });
  RunningSums<K> all;
  for (const auto &part : parts)
    all.add(part);
  return all.values();
}

inline KnownSum known_blocks(int64_t n, int n_threads,
                             FunctionRef<KnownSum(int64_t, int64_t)> block) {
  const auto [sum, size] = sums_of_blocks<2>(n, n_threads, [&](int64_t begin, int64_t length) {
    const KnownSum found = block(begin, length);
    return std::array{found.sum, found.size};
  });
  return {sum, size};
}

inline KnownSum known_inner(const double *a, const double *b, int64_t n, int n_threads) {
  return known_blocks(n, n_threads, [&](int64_t begin, int64_t size) {
    return inner_block(a + begin, b + begin, size);
  });
}

inline KnownSum known_sum(const double *a, int64_t n, int n_threads) {
  return known_blocks(n, n_threads,
                      [&](int64_t begin, int64_t size) { return sum_of_block(a + begin, size); });
}

} // namespace bridle
