// Rows and several functions at once: the weights of as many functions as fit a cache line, or a
// part of one, lie side by side, a lane each, so that a feature is one load for all of them and its
// step one store. What a lane computes does not depend on the others, nor on how many they are.
#pragma once

#include "base/cpu.hpp"
#include "base/memory.hpp"
#include "rows/views.hpp"

#include <cstdint>
#include <cstring>
#include <variant>

namespace bridle {

template <class W> inline constexpr int n_lanes = 64 / sizeof(W); // in a cache line

template <class W, int N> struct LanesOf {
  using Type [[gnu::vector_size(N * sizeof(W)), gnu::may_alias]] = W;
};
// A number for each of N lanes, on vectors as wide as the machine has them.
template <class W, int N = n_lanes<W>> using Lanes = typename LanesOf<W, N>::Type;

// n lines of a number for each lane, none of which lies on two lines of memory.
template <class W, int N = n_lanes<W>> class LaneTable {
public:
  explicit LaneTable(int64_t n) : memory_(n * N + n_lanes<W>) {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    first_ = memory_.data() + (64 - at % 64) % 64 / sizeof(W);
  }
  LaneTable(LaneTable &&) = default;

  W *line(int64_t i) { return first_ + i * N; }
  const W *line(int64_t i) const { return first_ + i * N; }
  Lanes<W, N> *lines() { return reinterpret_cast<Lanes<W, N> *>(first_); }
  const Lanes<W, N> *lines() const { return reinterpret_cast<const Lanes<W, N> *>(first_); }

private:
  LargeVector<W> memory_;
  W *first_;
};

// Rows of one kind of numbers, whatever their columns: which it is, is asked once for each row, so
// that what is done between the rows is compiled for a kind of numbers alone.
template <class W>
using RowsOf = std::variant<CsrRows<W, int32_t>, CsrRows<W, int64_t>, DenseRows<W>>;

// act has a copy of the view: stores to weights would have the view itself read again.
template <class W, class Act>
[[gnu::always_inline]] inline void with_rows(const RowsOf<W> &rows, const Act &act) {
  if (const auto *narrow = std::get_if<0>(&rows))
    act(CsrRows<W, int32_t>(*narrow));
  else if (const auto *wide = std::get_if<1>(&rows))
    act(CsrRows<W, int64_t>(*wide));
  else
    act(DenseRows<W>(*std::get_if<2>(&rows)));
}

// out = sum_j x_j w_j, without the constant feature: four sums break the chain of dependent
// additions.
template <class W, int N, class Value, class Column>
[[gnu::always_inline]] inline void lane_dot(const CsrRows<Value, Column> &rows, int64_t i,
                                            const Lanes<W, N> *w, W *out) {
  Lanes<W, N> s0{}, s1{}, s2{}, s3{};
  int64_t k = rows.offsets[i];
  const int64_t end = rows.offsets[i + 1];
  const Column *columns = rows.columns;
  const Value *values = rows.values;
  for (; k + 4 <= end; k += 4) {
    s0 += static_cast<W>(values[k]) * w[columns[k]];
    s1 += static_cast<W>(values[k + 1]) * w[columns[k + 1]];
    s2 += static_cast<W>(values[k + 2]) * w[columns[k + 2]];
    s3 += static_cast<W>(values[k + 3]) * w[columns[k + 3]];
  }
  for (; k < end; ++k)
    s0 += static_cast<W>(values[k]) * w[columns[k]];
  s0 = (s0 + s1) + (s2 + s3);
  std::memcpy(out, &s0, sizeof s0);
}

template <class W, int N, class Value>
[[gnu::always_inline]] inline void lane_dot(const DenseRows<Value> &rows, int64_t i,
                                            const Lanes<W, N> *w, W *out) {
  Lanes<W, N> s0{}, s1{}, s2{}, s3{};
  const Value *x = rows.row(i);
  int64_t j = 0;
  for (; j + 4 <= rows.n_features; j += 4) {
    s0 += static_cast<W>(x[j]) * w[j];
    s1 += static_cast<W>(x[j + 1]) * w[j + 1];
    s2 += static_cast<W>(x[j + 2]) * w[j + 2];
    s3 += static_cast<W>(x[j + 3]) * w[j + 3];
  }
  for (; j < rows.n_features; ++j)
    s0 += static_cast<W>(x[j]) * w[j];
  s0 = (s0 + s1) + (s2 + s3);
  std::memcpy(out, &s0, sizeof s0);
}

// w_j += x_j step, without the constant feature.
template <class W, int N, RowsLike Rows>
[[gnu::always_inline]] inline void lane_add(const Rows &rows, int64_t i, const W *steps,
                                            Lanes<W, N> *w) {
  Lanes<W, N> step;
  std::memcpy(&step, steps, sizeof step);
  rows.for_each(i, [&](int64_t column, auto value) __attribute__((always_inline)) {
    w[column] += static_cast<W>(value) * step;
  });
}

// The weights that the row is going to need: more than the first caches hold.
template <class W, int N, RowsLike Rows>
[[gnu::always_inline]] inline void prefetch_weights(const Rows &rows, int64_t i,
                                                    const Lanes<W, N> *w) {
  if constexpr (requires { rows.columns; })
    for (int64_t k = rows.offsets[i]; k < rows.offsets[i + 1]; ++k)
      __builtin_prefetch(w + rows.columns[k]);
}

} // namespace bridle
