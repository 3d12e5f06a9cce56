// The features of an svmlight row on vectors. Only usual shapes (an index of at most 8 digits; 123,
// 0.0123, -1.5 of at most 16) are read here. Whatever else there is, is left to the parser that
// called.
//
// A parser that finds the end of a number by reading it cannot begin the next one before. Here the
// ends of all tokens are found first, 64 bytes at a time. So several features are at work at once,
// and the digits of an index and of its value are weighed together.
#pragma once

#include "base/cpu.hpp"
#include "text/numbers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bridle::svmlight::detail {

// How far the features of a row have been read.
template <class T> struct RowSoFar {
  std::int32_t *indices;
  T *values;
  std::int32_t shift; // column = index - shift
  std::int64_t count = 0;

  bool ascending() const {
    int decreases = 0; // without a way out of the loop, so that it can be done on vectors
    for (std::int64_t k = 1; k < count; ++k)
      decreases |= indices[k] <= indices[k - 1];
    return !decreases;
  }
};

inline constexpr std::ptrdiff_t kReadBack = 16; // bytes before a token that may be read with it

// Offsets of the blanks, control characters and colons from an origin on, in order.
struct Delimiters {
  static constexpr std::uint64_t kBlock = 64;
  static constexpr std::ptrdiff_t kWindow = 2048;
  static constexpr int kAtOnce = 12; // most blocks have as many or fewer

  const char *origin = nullptr;
  std::array<std::uint16_t, kWindow + kAtOnce> at;
  std::uint16_t *next = at.data(), *last = at.data(); // those that are still to come

  Delimiters() = default;
  Delimiters(const Delimiters &) = delete;
  Delimiters &operator=(const Delimiters &) = delete;
};

#ifdef BRIDLE_X86

inline bool has_usual_features() { return cpu_level != CpuLevel::any; }

[[gnu::always_inline]] BRIDLE_V3 inline std::uint32_t delimiter_mask(const char *p) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
  const __m256i blank = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, _mm256_set1_epi8(' ')), bytes);
  const __m256i colon = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(':'));
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_or_si256(blank, colon)));
}

[[gnu::always_inline]] BRIDLE_V3 inline std::uint64_t delimiter_mask64(const char *p) {
  return delimiter_mask(p) | (std::uint64_t{delimiter_mask(p + 32)} << 32);
}

// Adds what was found in the block at an offset, and some places too many, that the next block or
// nobody writes over: a loop of just the right length would be mispredicted for every block.
[[gnu::always_inline]] BRIDLE_V3 inline std::uint16_t *
append(std::uint16_t *out, std::uint64_t offset, std::uint64_t found) {
  const auto n = _mm_popcnt_u64(found);
  for (std::uint16_t *place = out;; place += Delimiters::kAtOnce) {
    for (int k = 0; k < Delimiters::kAtOnce; ++k, found = _blsr_u64(found))
      place[k] = static_cast<std::uint16_t>(offset + _tzcnt_u64(found));
    if (found == 0) [[likely]]
      return out + n;
  }
}

// Looks for those in [from, end), as far as the window goes.
[[gnu::noinline]] BRIDLE_V3 inline void look_ahead(Delimiters &into, const char *from,
                                                   const char *end) {
  into.origin = from;
  std::uint16_t *out = into.at.data();
  const auto size = static_cast<std::uint64_t>(std::min(Delimiters::kWindow, end - from));
  std::uint64_t offset = 0;
  for (; size - offset >= Delimiters::kBlock; offset += Delimiters::kBlock)
    out = append(out, offset, delimiter_mask64(from + offset));
  if (const std::uint64_t left = size - offset) { // the bytes after the text may not be there
    std::array<char, Delimiters::kBlock> rest{};
    std::memcpy(rest.data(), from + offset, left);
    out = append(out, offset, _bzhi_u64(delimiter_mask64(rest.data()), left));
  }
  into.next = into.at.data();
  into.last = out;
}

// The n last of 16 bytes: kLast + n.
alignas(32) inline constexpr std::array<std::uint8_t, 32> kLast = [] {
  std::array<std::uint8_t, 32> bytes{};
  std::fill(bytes.begin() + 16, bytes.end(), std::uint8_t{0xFF});
  return bytes;
}();

[[gnu::always_inline]] BRIDLE_V3 inline __m256i two_halves(const void *low, const void *high) {
  const __m256i first = _mm256_castsi128_si256(_mm_loadu_si128(static_cast<const __m128i *>(low)));
  return _mm256_inserti128_si256(first, _mm_loadu_si128(static_cast<const __m128i *>(high)), 1);
}

// Reads features of usual shapes that are separated by single spaces, from p on; kReadBack bytes
// before p may be read, and a little after the newline before `end`. Returns where it stopped: at
// the start of a feature that it leaves to others, or at the newline.
template <class T>
BRIDLE_V3 const char *usual_features(const char *p, const char *end, Delimiters &ahead,
                                     RowSoFar<T> &into) {
  std::int32_t *indices = into.indices + into.count;
  T *values = into.values + into.count;
  const std::int32_t shift = into.shift;
  std::uint16_t *next = ahead.next;
  while (next != ahead.last && ahead.origin + *next < p)
    ++next;
  for (;;) {
    if (ahead.last - next < 2) [[unlikely]] {
      look_ahead(ahead, p, end);
      next = ahead.next;
      if (ahead.last - next < 2)
        break;
    }
    // Conditions that always hold are cheapest as branches of their own.
    const char *const colon = ahead.origin + next[0];
    const char *const stop = ahead.origin + next[1];
    const auto index_digits = static_cast<std::size_t>(colon - p);
    if (*colon != ':' || index_digits - 1 >= 8 || (*stop != ' ' && *stop != '\n')) [[unlikely]]
      break;
    const bool negative = colon[1] == '-'; // as likely as not: no branch
    const char *const value = colon + 1 + negative;
    const std::uint64_t pointed = 0 - std::uint64_t{value[1] == '.'}; // all bits or none
    const auto length = static_cast<std::size_t>(stop - value);
    const std::size_t digits = length - (2 & pointed);
    if (length == 0 || digits > 16) [[unlikely]]
      break;
    const __m256i text = two_halves(stop - 16, colon - 16);
    const __m256i kept = two_halves(kLast.data() + digits, kLast.data() + index_digits);
    const __m256i ones = _mm256_and_si256(_mm256_sub_epi8(text, _mm256_set1_epi8('0')), kept);
    const __m256i excess = _mm256_subs_epu8(ones, _mm256_set1_epi8(9));
    if (!_mm256_testz_si256(excess, excess)) [[unlikely]]
      break;
    const __m256i twos = _mm256_maddubs_epi16(ones, _mm256_set1_epi16(1 << 8 | 10));
    const __m256i fours = _mm256_madd_epi16(twos, _mm256_set1_epi32(1 << 16 | 100));
    const __m256i packed = _mm256_packus_epi32(fours, fours);
    const __m256i eights = _mm256_madd_epi16(packed, _mm256_set1_epi32(1 << 16 | 10000));
    const auto both = static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm256_castsi256_si128(eights)));
    // Whether there is a point changes from feature to feature in some files: no branch either.
    const std::uint64_t lead = static_cast<unsigned char>(*value - '0') & pointed;
    const std::uint64_t mantissa =
        (both & 0xFFFFFFFFu) * 100000000u + (both >> 32) + lead * kIntegerPowersOfTen[digits];
    if (lead > 9 || mantissa > kExactInteger) [[unlikely]]
      break;
    const double magnitude =
        static_cast<double>(static_cast<std::int64_t>(mantissa)) / kPowersOfTen[digits & pointed];
    *values++ = static_cast<T>(std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) |
                                                     (std::uint64_t{negative} << 63)));
    *indices++ = _mm256_extract_epi32(eights, 5) - shift;
    next += 2;
    p = stop;
    if (*p != ' ') [[unlikely]]
      break;
    ++p;
  }
  ahead.next = next;
  into.count = indices - into.indices;
  return p;
}

#else

template <class T>
const char *usual_features(const char *p, const char *, Delimiters &, RowSoFar<T> &) {
  return p;
}
inline bool has_usual_features() { return false; }

#endif

} // namespace bridle::svmlight::detail
