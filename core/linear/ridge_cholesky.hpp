// Small linear systems that may be singular.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

// Solves A x = b in place of b for symmetric positive semidefinite A (row-major, overwritten), with
// as small a ridge as lets the factorisation succeed. Columns are first scaled to a unit diagonal.
class RidgeCholesky {
public:
  void solve(std::vector<double> &a, std::vector<double> &b) {
    const auto n = static_cast<int64_t>(b.size());
    scale_.resize(n);
    for (int64_t i = 0; i < n; ++i)
      scale_[i] = a[i * n + i] > 0 ? 1 / std::sqrt(a[i * n + i]) : 1;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j)
        a[i * n + j] *= scale_[i] * scale_[j];
      b[i] *= scale_[i];
    }
    for (double ridge = 1e-15 * static_cast<double>(n); !factorise(a, n, ridge); ridge *= 10)
      if (!(ridge < 1e10)) { // not a number somewhere: no ridge will help, and no step is taken
        std::fill(b.begin(), b.end(), 0.0);
        return;
      }
    substitute(n, b);
    for (int64_t i = 0; i < n; ++i)
      b[i] *= scale_[i];
  }

private:
  bool factorise(const std::vector<double> &a, int64_t n, double ridge) {
    lower_.resize(n * n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        const double *li = lower_.data() + i * n, *lj = lower_.data() + j * n;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t k = 0; k < j; ++k)
          sum += li[k] * lj[k];
        const double rest = a[i * n + j] - sum;
        if (i > j) {
          lower_[i * n + j] = rest / lower_[j * n + j];
          continue;
        }
        if (!(rest + ridge > 0.5 * ridge))
          return false;
        lower_[i * n + i] = std::sqrt(rest + ridge);
      }
    return true;
  }

  void substitute(int64_t n, std::vector<double> &b) const {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < i; ++k)
        b[i] -= lower_[i * n + k] * b[k];
      b[i] /= lower_[i * n + i];
    }
    for (int64_t i = n - 1; i >= 0; --i) {
      b[i] /= lower_[i * n + i];
      for (int64_t k = 0; k < i; ++k)
        b[k] -= lower_[i * n + k] * b[i];
    }
  }

  std::vector<double> scale_, lower_;
};

} // namespace bridle
