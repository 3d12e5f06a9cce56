// The random numbers of every method: xoshiro256++ (Blackman & Vigna 2019) seeded by splitmix64.
// Ours, so that one seed gives the same orderings on every platform and compiler.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>

namespace bridle {

class Rng {
public:
  explicit Rng(uint64_t seed) {
    for (auto &word : state_)
      word = splitmix(seed);
  }

  uint64_t next() {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform on 0..n-1 without bias (Lemire 2019). n must be positive.
  uint64_t below(uint64_t n) {
    unsigned __int128 product = static_cast<unsigned __int128>(next()) * n;
    if (static_cast<uint64_t>(product) < n) {
      const uint64_t threshold = -n % n;
      while (static_cast<uint64_t>(product) < threshold)
        product = static_cast<unsigned __int128>(next()) * n;
    }
    return static_cast<uint64_t>(product >> 64);
  }

  // Uniform on [0, 1) with 53 random bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  template <class T> void shuffle(std::span<T> items) {
    for (uint64_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[below(i)]);
  }

private:
  static uint64_t splitmix(uint64_t &seed) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  uint64_t state_[4];
};

} // namespace bridle
