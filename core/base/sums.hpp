// Sums whose rounding is known. Terms are added in blocks of 128 on eight lanes, and the sums of
// the blocks with the rounding of each addition kept: each term goes through at most 24 roundings,
// its own product included, however many there are. So the result differs from the exact sum by at
// most 24 u sum |t| (u = 2^-53), but for products that underflow.
#pragma once

#include "base/cpu.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

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

inline KnownSum known_inner(const double *a, const double *b, int64_t n) {
  Compensated sum, size;
  for (int64_t begin = 0; begin < n; begin += sum_block) {
    const KnownSum block = inner_block(a + begin, b + begin, std::min(sum_block, n - begin));
    sum.add(block.sum);
    size.add(block.size);
  }
  return {sum.value(), size.value()};
}

// The same of a_i alone.
inline KnownSum known_sum(const double *a, int64_t n) {
  static constexpr auto ones = [] {
    struct {
      double of[sum_block];
    } made{};
    for (double &one : made.of)
      one = 1.0;
    return made;
  }();
  Compensated sum, size;
  for (int64_t begin = 0; begin < n; begin += sum_block) {
    const KnownSum block = inner_block(a + begin, ones.of, std::min(sum_block, n - begin));
    sum.add(block.sum);
    size.add(block.size);
  }
  return {sum.value(), size.value()};
}

} // namespace bridle
