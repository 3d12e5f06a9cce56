// Numbers, eight bytes at a time. Every text handed to the parser is followed by at least kPadding
// readable bytes, so that a load never has to ask where the text ends.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#if !defined(__cpp_lib_to_chars)
#include <locale.h>
#if __has_include(<xlocale.h>)
#include <xlocale.h>
#endif
#endif

namespace bridle::svmlight::detail {

inline constexpr std::size_t kPadding = 16;

// The double nearest to a text that is a number; whether there is one, neither too large nor too
// small.
inline bool nearest_double(const char *begin, const char *end, double &number) {
#if defined(__cpp_lib_to_chars)
  return std::from_chars(begin, end, number).ec != std::errc::result_out_of_range;
#else // libc++ before version 20
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr); // a point is a point
  number = strtod_l(std::string(begin, end).c_str(), nullptr, plain);
  return number != 0 && number <= std::numeric_limits<double>::max();
#endif
}

// Powers of ten that a double holds exactly.
inline constexpr std::array<double, 23> kPowersOfTen = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr std::array<std::uint64_t, 17> kIntegerPowersOfTen = [] {
  std::array<std::uint64_t, 17> powers{1};
  for (std::size_t k = 1; k < powers.size(); ++k)
    powers[k] = 10 * powers[k - 1];
  return powers;
}();
inline constexpr std::uint64_t kExactInteger = std::uint64_t{1} << 53;

inline std::uint64_t load8(const char *p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  if constexpr (std::endian::native == std::endian::big)
    word = __builtin_bswap64(word);
  return word;
}

// A run of decimal digits within eight bytes: how many there are, and their value.
struct DigitRun {
  unsigned length;
  std::uint64_t value;
};

inline DigitRun read_digits(const char *p) {
  const std::uint64_t word = load8(p) ^ 0x3030303030303030u; // a digit becomes 0..9
  // The top bit of the first byte above 9. Carries only spoil the bytes after it.
  const std::uint64_t stop = ((word + 0x7676767676767676u) | word) & 0x8080808080808080u;
  const auto length = static_cast<unsigned>(std::countr_zero(stop)) >> 3; // 8 if there is none
  std::uint64_t v = length == 0 ? 0 : word << (64 - 8 * length);          // leading zeros
  v = v * 10 + (v >> 8);
  v = ((v & 0x000000FF000000FFu) * 0x000F424000000064u +
       ((v >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u) >>
      32;
  return {length, v & 0xFFFFFFFFu};
}

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') <= 9; }
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool ends_token(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '#';
}

inline const char *token_end(const char *p) {
  while (!ends_token(*p))
    ++p;
  return p;
}

// The usual shapes (123, 0.0123, -1.5, at most 16 digits and no exponent) in a few instructions,
// with one correctly rounded division. Returns the end of the number, or null: read_any_number
// decides.
inline const char *read_common_number(const char *p, double &number) {
  const bool negative = *p == '-';
  if (!is_digit(*p) && (negative || *p == '+'))
    ++p; // a branch, so that the processor runs ahead of the sign
  const auto lead = static_cast<unsigned char>(*p - '0');
  if (lead > 9)
    return nullptr;
  std::uint64_t mantissa;
  unsigned decimals = 0;
  if (p[1] == '.') {
    const DigitRun run = read_digits(p + 2);
    mantissa = lead * kIntegerPowersOfTen[run.length] + run.value;
    decimals = run.length;
    if (run.length == 8) {
      const DigitRun more = read_digits(p + 10);
      mantissa = mantissa * kIntegerPowersOfTen[more.length] + more.value;
      decimals += more.length;
    }
    p += 2 + decimals;
  } else if (ends_token(p[1])) {
    mantissa = lead; // nearly always 1, in binary features
    ++p;
  } else {
    const DigitRun run = read_digits(p);
    mantissa = run.value;
    p += run.length;
  }
  if (!ends_token(*p) || mantissa > kExactInteger)
    return nullptr;
  const double magnitude = static_cast<double>(mantissa) / kPowersOfTen[decimals];
  number = negative ? -magnitude : magnitude;
  return p;
}

enum class NumberState { good, malformed, not_finite };

// Any decimal number that fills [p, end), correctly rounded. What is too small becomes zero.
inline NumberState read_any_number(const char *p, const char *end, double &number) {
  const bool negative = p != end && *p == '-';
  if (p != end && (*p == '-' || *p == '+'))
    ++p;
  const char *const begin = p;
  std::uint64_t mantissa = 0;
  std::int64_t digits = 0;
  std::int64_t width = 0; // digits from the first that is not zero
  std::int64_t exponent = 0;
  const auto take_digits = [&](bool after_point) {
    for (; p != end && is_digit(*p); ++p, ++digits) {
      if (width < 19)
        mantissa = mantissa * 10 + static_cast<unsigned>(*p - '0');
      width += mantissa != 0;
      exponent -= after_point;
    }
  };
  take_digits(false);
  if (p != end && *p == '.') {
    ++p;
    take_digits(true);
  }
  if (digits == 0) {
    const std::string_view rest(begin, static_cast<std::size_t>(end - begin));
    const auto starts_with = [&](const char *word) {
      return rest.size() >= 3 && (rest[0] | 32) == word[0] && (rest[1] | 32) == word[1] &&
             (rest[2] | 32) == word[2];
    };
    return starts_with("nan") || starts_with("inf") ? NumberState::not_finite
                                                    : NumberState::malformed;
  }
  if (p != end && (*p | 32) == 'e') {
    ++p;
    const bool below = p != end && *p == '-';
    if (p != end && (*p == '-' || *p == '+'))
      ++p;
    if (p == end || !is_digit(*p))
      return NumberState::malformed;
    std::int64_t written = 0;
    for (; p != end && is_digit(*p); ++p)
      written = std::min<std::int64_t>(written * 10 + (*p - '0'), 1'000'000'000'000'000);
    exponent += below ? -written : written;
  }
  if (p != end)
    return NumberState::malformed;

  double magnitude = 0.0;
  if (width <= 19 && mantissa <= kExactInteger && exponent >= -22 && exponent <= 22) {
    const double power = kPowersOfTen[static_cast<std::size_t>(std::abs(exponent))];
    magnitude = exponent < 0 ? static_cast<double>(mantissa) / power
                             : static_cast<double>(mantissa) * power;
  } else if (mantissa != 0) {
    if (!nearest_double(begin, end, magnitude)) {
      if (exponent + width > 0) // it does not say on which side
        return NumberState::not_finite;
      magnitude = 0.0;
    }
  }
  number = negative ? -magnitude : magnitude;
  return NumberState::good;
}

} // namespace bridle::svmlight::detail
