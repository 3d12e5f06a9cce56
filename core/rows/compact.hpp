// Rows in fewer bytes: columns as gaps of 16 bits, values as 16-bit numbers of different ones. What
// packs and what unpacks are here, side by side; nothing that is unpacked is trusted.
#pragma once

#include "base/cpu.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace bridle {

// From -1 on, each gap leads to the next column of a row; `no_column` goes on by `stride`, and
// there is no entry there.
constexpr uint16_t no_column = 0;
constexpr int64_t stride = 65535;

// Rows i are offsets[i]..offsets[i + 1] of what they belong to; they may begin anywhere.
using Offsets = std::span<const int64_t>;

inline void expect_inside(Offsets offsets, size_t size, const char *name) {
  if (offsets.empty() || offsets.front() < 0 || offsets.back() > static_cast<int64_t>(size) ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw std::invalid_argument(std::string("the offsets of ") + name +
                                " do not increase within its " + std::to_string(size) + " entries");
}

struct Gaps {
  std::vector<int64_t> offsets;
  std::vector<uint16_t> gaps;
};

// None where they would be more than `most`: columns that far apart are better left as they are.
template <class Column>
std::optional<Gaps> gaps_of(Offsets offsets, std::span<const Column> columns, int64_t most) {
  expect_inside(offsets, columns.size(), "indices");
  Gaps found{{0}, {}};
  found.offsets.reserve(offsets.size());
  found.gaps.reserve(static_cast<size_t>(offsets.back() - offsets.front()));
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    int64_t before = -1;
    for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k) {
      int64_t gap = int64_t{columns[k]} - before;
      if (gap <= 0)
        throw std::invalid_argument("row " + std::to_string(i) + ": its columns must increase");
      if (static_cast<int64_t>(found.gaps.size()) + gap / stride >= most)
        return std::nullopt;
      for (; gap > stride; gap -= stride)
        found.gaps.push_back(no_column);
      found.gaps.push_back(static_cast<uint16_t>(gap));
      before = columns[k];
    }
    found.offsets.push_back(static_cast<int64_t>(found.gaps.size()));
  }
  return found;
}

// Where a row's columns are not as many as they should be.
constexpr int64_t misfit = -2;

// The columns of one row; returns the last, or -1 if there is none.
inline int64_t row_columns(std::span<const uint16_t> gaps, std::span<int32_t> out) {
  int64_t column = -1;
  if (gaps.size() == out.size()) {
    bool every = true;
    for (size_t k = 0; k < gaps.size(); ++k) {
      every &= gaps[k] != no_column;
      column += gaps[k];
      out[k] = static_cast<int32_t>(column);
    }
    return every ? column : misfit;
  }
  size_t used = 0;
  for (const uint16_t gap : gaps) {
    column += gap == no_column ? stride : gap;
    if (gap == no_column)
      continue;
    if (used == out.size())
      return misfit;
    out[used++] = static_cast<int32_t>(column);
  }
  return used == out.size() ? column : misfit;
}

// The columns of rows, which increase and are below n_features, or there is an exception. A row has
// as many of them as `offsets` says.
inline void columns_of_gaps(Offsets gap_offsets, std::span<const uint16_t> gaps, Offsets offsets,
                            int64_t n_features, std::span<int32_t> out) {
  expect_inside(gap_offsets, gaps.size(), "gaps");
  expect_inside(offsets, out.size(), "values");
  if (gap_offsets.size() != offsets.size())
    throw std::invalid_argument("there are not as many rows of gaps as of values");
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto own = gaps.subspan(gap_offsets[i], gap_offsets[i + 1] - gap_offsets[i]);
    const auto columns = out.subspan(offsets[i], offsets[i + 1] - offsets[i]);
    const int64_t last = row_columns(own, columns);
    if (last == misfit)
      throw std::invalid_argument("row " + std::to_string(i) + " has other columns than its " +
                                  std::to_string(columns.size()) + " values");
    if (last >= n_features)
      throw std::invalid_argument("row " + std::to_string(i) + " has column index " +
                                  std::to_string(last) + ", outside 0.." +
                                  std::to_string(n_features - 1));
  }
}

// Different values, in the order in which they first came, and their numbers.
template <class Value> class Codes {
public:
  static constexpr size_t most = 65536;

  explicit Codes(std::span<const Value> known) : slots_(4 * most, -1) {
    for (const Value value : known)
      if (code_of(value) < 0)
        throw std::invalid_argument("there are more values than codes");
  }

  // Whether there were enough codes.
  bool encode(std::span<const Value> values, std::span<uint16_t> out) {
    for (size_t k = 0; k < values.size(); ++k) {
      const int32_t code = code_of(values[k]);
      if (code < 0)
        return false;
      out[k] = static_cast<uint16_t>(code);
    }
    return true;
  }
  std::vector<Value> &known() { return known_; }

private:
  using Bits = std::conditional_t<sizeof(Value) == 4, uint32_t, uint64_t>;

  int32_t code_of(Value value) {
    const Bits bits = std::bit_cast<Bits>(value);
    size_t slot = (uint64_t{bits} * 0x9e3779b97f4a7c15u) >> 46; // of 2^18
    for (; slots_[slot] >= 0; slot = (slot + 1) % slots_.size())
      if (std::bit_cast<Bits>(known_[slots_[slot]]) == bits)
        return slots_[slot];
    if (known_.size() == most)
      return -1;
    known_.push_back(value);
    return slots_[slot] = static_cast<int32_t>(known_.size() - 1);
  }

  std::vector<Value> known_;
  std::vector<int32_t> slots_;
};

BRIDLE_WIDEST inline uint16_t largest_code(const uint16_t *codes, int64_t n) {
  uint16_t largest = 0;
  for (int64_t k = 0; k < n; ++k)
    largest = std::max(largest, codes[k]);
  return largest;
}

template <class Value>
void values_of_codes(std::span<const uint16_t> codes, std::span<const Value> known,
                     std::span<Value> out) {
  if (!codes.empty() && largest_code(codes.data(), codes.size()) >= known.size())
    throw std::invalid_argument("a value has a number beyond the " + std::to_string(known.size()) +
                                " of the dictionary");
  for (size_t k = 0; k < codes.size(); ++k)
    out[k] = known[codes[k]];
}

} // namespace bridle
