// Values as products, as those of weighted words are: a number of the row (one over its length),
// one of the column (how rare the word is) and one of a few (for how often it is there), and how
// many floats the product is off. What packs and what unpacks are side by side; nothing that is
// unpacked is trusted.
#pragma once

#include "rows/compact.hpp"

#include <cmath>

namespace bridle {

// A code of 16 bits: which of the few, and by how many floats the value is off, from 1 to 511 for
// -255 to 255. `by_itself` is a value that is no such product.
constexpr uint16_t by_itself = 0;
constexpr int offset_bits = 9;
constexpr int32_t offset_of_none = 1 << (offset_bits - 1), offset_mask = (1 << offset_bits) - 1;
constexpr size_t most_few = 1 << (16 - offset_bits);

struct Factors {
  std::span<const float> columns; // 0 where it is not known
  std::span<const double> few;    // increasing, none of them 0

  void check() const {
    if (few.size() > most_few || !std::is_sorted(few.begin(), few.end()))
      throw std::invalid_argument("the factors of values are not at most " +
                                  std::to_string(most_few) + " that increase");
  }
  double of_column(int64_t column) const {
    return 0 <= column && column < static_cast<int64_t>(columns.size()) ? columns[column] : 0.0;
  }
};

// Products alone: every machine rounds them alike.
inline uint32_t product_bits(double row, double column, double one_of_few) {
  return std::bit_cast<uint32_t>(static_cast<float>(row * column * one_of_few));
}

inline uint16_t factored_code(float value, double row, double column, std::span<const double> few) {
  const double ratio = value / (row * column);
  if (!std::isfinite(ratio) || few.empty())
    return by_itself;
  size_t k = std::lower_bound(few.begin(), few.end(), ratio) - few.begin();
  if (k == few.size() || (k > 0 && ratio - few[k - 1] < few[k] - ratio))
    --k;
  const int64_t off =
      int64_t{std::bit_cast<uint32_t>(value)} - product_bits(row, column, few[k]) + offset_of_none;
  if (off <= 0 || off > offset_mask)
    return by_itself;
  return static_cast<uint16_t>((k << offset_bits) + static_cast<size_t>(off));
}

// The number of a row that most of its values are the product of with their columns' alone: the
// middle of the longest run of ratios that are all but the same.
inline double row_factor(std::vector<double> &ratios) {
  constexpr double alike = 1 + 1e-5;
  std::sort(ratios.begin(), ratios.end());
  size_t first = 0, longest = 0, begin = 0;
  for (size_t k = 0; k < ratios.size(); ++k) {
    while (ratios[k] > ratios[begin] * alike)
      ++begin;
    if (k + 1 - begin > longest)
      longest = k + 1 - begin, first = begin;
  }
  return longest ? ratios[first + longest / 2] : 0.0;
}

struct Factored {
  std::vector<double> scale; // of each row
  std::vector<uint16_t> codes;
  std::vector<int64_t> rest_offsets{0};
  std::vector<float> rest; // of each row the values that are by themselves, in their order
};

template <class Column>
Factored factored(Offsets offsets, std::span<const Column> columns, std::span<const float> values,
                  const Factors &factors) {
  expect_inside(offsets, std::min(columns.size(), values.size()), "values");
  factors.check();
  Factored found;
  std::vector<double> ratios;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    ratios.clear();
    for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k)
      if (const double ratio = std::abs(values[k]) / factors.of_column(columns[k]);
          0 < ratio && std::isfinite(ratio))
        ratios.push_back(ratio);
    const double row = row_factor(ratios);
    for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k) {
      found.codes.push_back(
          factored_code(values[k], row, factors.of_column(columns[k]), factors.few));
      if (found.codes.back() == by_itself)
        found.rest.push_back(values[k]);
    }
    found.scale.push_back(row);
    found.rest_offsets.push_back(static_cast<int64_t>(found.rest.size()));
  }
  return found;
}

// The values of rows whose columns are known, but need not be inside of anything; that the values
// are finite is for who reads them to see.
template <class Column>
void values_of_factors(Offsets offsets, std::span<const uint16_t> codes,
                       std::span<const Column> columns, std::span<const double> scale,
                       Offsets rest_offsets, std::span<const float> rest, const Factors &factors,
                       std::span<float> out) {
  expect_inside(offsets, std::min({codes.size(), columns.size(), out.size()}), "values");
  expect_inside(rest_offsets, rest.size(), "rest");
  factors.check();
  if (rest_offsets.size() != offsets.size() || scale.size() + 1 != offsets.size())
    throw std::invalid_argument("there are not as many rows of scale and rest as of values");
  if (!codes.empty() && largest_code(codes.data(), codes.size()) >> offset_bits >=
                            std::max(1, int(factors.few.size())))
    throw std::invalid_argument("a value has a factor beyond the " +
                                std::to_string(factors.few.size()) + " that there are");
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    int64_t next = rest_offsets[i];
    const auto wrong = [&](const char *what) {
      throw std::invalid_argument("row " + std::to_string(i) + what);
    };
    for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k) {
      if (codes[k] == by_itself) {
        if (next == rest_offsets[i + 1])
          wrong(" has fewer values by themselves than its codes say");
        out[k] = rest[next++];
        continue;
      }
      const double column = factors.of_column(columns[k]);
      if (factors.few.empty() || column == 0)
        wrong(" has a product in a column that has no factor");
      const uint32_t bits = product_bits(scale[i], column, factors.few[codes[k] >> offset_bits]);
      out[k] = std::bit_cast<float>(bits + (codes[k] & offset_mask) - offset_of_none);
    }
    if (next != rest_offsets[i + 1])
      wrong(" has more values by themselves than its codes say");
  }
}

} // namespace bridle
