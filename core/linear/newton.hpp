// What augmented Lagrangian and Newton methods sum over the rows, in parts of a fixed number of
// rows that are added in order: the same bits for any number of threads.
#pragma once

#include "base/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

struct ClippedSum {
  double sum = 0; // sum_i a_i(t) e_i
  // Over the rows where a_i is not clipped:
  double curvature = 0; // sum of sigma_i e_i^2, minus the derivative of the sum in t
  double cross = 0;     // sum of sigma_i e_i y_i
  double weight = 0;    // sum of sigma_i

  void add(const ClippedSum &other) {
    sum += other.sum;
    curvature += other.curvature;
    cross += other.cross;
    weight += other.weight;
  }
};

// sum_of(range) of all parts of n rows.
template <class Sum, class SumOf> Sum sum_parts(int64_t n, int n_threads, const SumOf &sum_of) {
  constexpr int64_t rows = 1 << 15;
  const int64_t n_parts = (n + rows - 1) / rows;
  std::vector<Sum> parts(n_parts);
  for_blocks(n_parts, n_threads, [&](int64_t part) {
    parts[part] = sum_of(Range{part * rows, std::min(n, (part + 1) * rows)});
  });
  Sum total;
  for (const Sum &part : parts)
    total.add(part);
  return total;
}

// The rows as the augmented Lagrangian sees them.
struct PhiRows {
  const double *alpha, *sigma, *upper, *y;
  int64_t n;
};

// a_i(t) = clip(alpha_i + sigma_i (1 - p_i - t e_i), 0, upper_i)
inline ClippedSum clipped_sum(const PhiRows &rows, const double *p, const double *e, double t,
                              int n_threads) {
  return sum_parts<ClippedSum>(rows.n, n_threads, [&](Range range) {
    ClippedSum total;
    for (int64_t i = range.begin; i < range.end; ++i) {
      const double u = rows.alpha[i] + rows.sigma[i] * (1 - p[i] - t * e[i]);
      if (u <= 0)
        continue;
      if (u < rows.upper[i]) {
        total.sum += u * e[i];
        total.curvature += rows.sigma[i] * e[i] * e[i];
        total.cross += rows.sigma[i] * e[i] * rows.y[i];
        total.weight += rows.sigma[i];
      } else {
        total.sum += rows.upper[i] * e[i];
      }
    }
    return total;
  });
}

// What a point of phi is made of, beside a.
struct DualsFound {
  double slack = 0; // sum a_i (1 - p_i)
  double above = 0; // by how much sum upper_i max(1 - p_i, 0) is more, where there is such a bound

  void add(const DualsFound &other) {
    slack += other.slack;
    above += other.above;
  }
};

// a_i = clip(alpha_i + sigma_i (1 - p_i), 0, upper_i), and weights_i = sigma_i where it is between.
inline DualsFound clipped_duals(const PhiRows &rows, const double *p, double *a, double *weights,
                                int n_threads) {
  return sum_parts<DualsFound>(rows.n, n_threads, [&](Range range) {
    DualsFound total;
    for (int64_t i = range.begin; i < range.end; ++i) {
      const double short_of = 1 - p[i], upper = rows.upper[i];
      const double u = rows.alpha[i] + rows.sigma[i] * short_of;
      a[i] = std::min(std::max(u, 0.0), upper);
      weights[i] = u > 0 && u < upper ? rows.sigma[i] : 0.0;
      total.slack += a[i] * short_of;
      if (std::isfinite(upper))
        total.above += upper * std::max(short_of, 0.0) - a[i] * short_of;
    }
    return total;
  });
}

} // namespace bridle
