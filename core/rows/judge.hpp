// What a certificate asks of the rows, in one pass.
#pragma once

#include "base/sums.hpp"
#include "rows/passes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

// A number for each row, or one for all of them.
struct PerRow {
  const double *each;
  double all;

  double operator[](int64_t i) const { return each ? each[i] : all; }
};

// Of some dual variables alpha_i, whose rows have the signs y_i.
struct DualSums {
  KnownSum total; // sum alpha_i and sum |alpha_i|
  double balance; // sum alpha_i y_i, rounded as often
};

// Sum alpha_i, sum |alpha_i| and sum alpha_i y_i of a block; signs: numbers that have them.
inline std::array<double, 3> dual_block(const double *alpha, const double *signs, int64_t n) {
  double y[sum_block];
  for (int64_t k = 0; k < n; ++k)
    y[k] = std::copysign(1.0, signs[k]);
  const KnownSum total = sum_of_block(alpha, n);
  return {total.sum, total.size, inner_block(alpha, y, n).sum};
}

inline DualSums dual_sums_from(const std::array<double, 3> &sums) {
  return {{sums[0], sums[1]}, sums[2]};
}

inline DualSums dual_sums(const double *alpha, const double *signs, int64_t n, int n_threads) {
  return dual_sums_from(sums_of_blocks<3>(n, n_threads, [&](int64_t begin, int64_t size) {
    return dual_block(alpha + begin, signs + begin, size);
  }));
}

// What somebody proposes as dual variables, and what makes a feasible point of it: the bounds, then
// by how much alpha_i is to be scaled where alpha_i y_i is positive, and elsewhere, and what part
// of its upper bound is added.
struct DualProposal {
  const double *own; // none: zeros
  PerRow low, high;
  const double *signs; // numbers that have them
  double up, down, top;

  double inside(int64_t i, double value) const {
    return std::min(std::max(value, low[i]), high[i]);
  }
  double scaled(int64_t i, double alpha) const {
    const double some = alpha * (alpha * std::copysign(1.0, signs[i]) > 0 ? up : down);
    return top != 0 ? inside(i, some + top * high[i]) : some;
  }
};

struct JudgedRows {
  DualSums sums;
  double moved, shifted; // how far alpha went into the bounds, and altogether
};

// alpha: the feasible point; w = sum_i alpha_i y_i x_i; scores[i] = w_at . x_i.
template <RowsLike Rows>
JudgedRows judge_rows(const Rows &rows, const DualProposal &given, const double *w_at,
                      double *alpha, double *w, double *scores, int n_threads) {
  struct Part {
    RunningSums<3> sums;
    double moved = 0, shifted = 0;
  };
  const bool wide = rows.n_features >= wide_rows;
  std::vector<Part> parts(sum_blocks(rows));
  sum_rows(rows, w, n_threads, [&](Range range, double *sum, int64_t block) {
    Part part;
    for (int64_t begin = range.begin; begin < range.end; begin += sum_block) {
      const int64_t end = std::min(range.end, begin + sum_block);
      for (int64_t i = begin; i < end; ++i) {
        const double y = std::copysign(1.0, given.signs[i]), own = given.own ? given.own[i] : 0.0;
        const double inside = given.inside(i, own);
        alpha[i] = given.scaled(i, inside);
        part.moved += std::abs(inside - own);
        part.shifted += std::abs(alpha[i] - own);
        if (wide && i + 1 < end) {
          rows.prefetch_weights(i + 1, w_at);
          rows.prefetch_weights(i + 1, sum);
        }
        scores[i] = rows.dot(i, w_at);
        if (alpha[i] != 0)
          rows.add(i, alpha[i] * y, sum);
      }
      part.sums.add(dual_block(alpha + begin, given.signs + begin, end - begin));
    }
    parts[block] = part;
  });
  Part all;
  for (const Part &part : parts) {
    all.sums.add(part.sums.values());
    all.moved += part.moved;
    all.shifted += part.shifted;
  }
  return {dual_sums_from(all.sums.values()), all.moved, all.shifted};
}

} // namespace bridle
