// The line search of augmented Lagrangian and Newton methods: sums of clipped linear functions of a
// step.
#pragma once

#include <cstdint>

namespace bridle {

struct ClippedSum {
  double sum; // sum_i a_i(t) e_i
  // Over the rows where a_i is not clipped:
  double curvature; // sum of sigma_i e_i^2, minus the derivative of the sum in t
  double cross;     // sum of sigma_i e_i y_i
  double weight;    // sum of sigma_i
};

// a_i(t) = clip(alpha_i + sigma_i (1 - p_i - t e_i), 0, upper_i)
inline ClippedSum clipped_sum(const double *p, const double *e, double t, const double *alpha,
                              const double *sigma, const double *upper, const double *y,
                              int64_t n) {
  ClippedSum total{0, 0, 0, 0};
  for (int64_t i = 0; i < n; ++i) {
    const double u = alpha[i] + sigma[i] * (1 - p[i] - t * e[i]);
    if (u <= 0)
      continue;
    if (u < upper[i]) {
      total.sum += u * e[i];
      total.curvature += sigma[i] * e[i] * e[i];
      total.cross += sigma[i] * e[i] * y[i];
      total.weight += sigma[i];
    } else {
      total.sum += upper[i] * e[i];
    }
  }
  return total;
}

} // namespace bridle
