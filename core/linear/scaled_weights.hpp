// A weight vector w = s v that every sparse step leaves sparse: shrinking multiplies s, adding a
// row touches only its non-zeros. Beside v goes beta with v = sum_i beta_i z_i, so that alpha = s
// beta satisfies w = w(alpha) at no cost; and, on request, the running sum of the w's seen so far,
// kept as S v - u (S the sum of the scales), which also costs O(nnz) a step.
#pragma once

#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

template <RowsLike Rows> class ScaledWeights {
public:
  using W = typename Rows::Value;

  // n_rows: of the data, of which `rows` may be a part (see `enter`).
  ScaledWeights(const Rows &rows, const double *start_w, const double *start_alpha, int64_t n_rows)
      : rows_(rows), v_(start_w, start_w + rows.n_features + 1),
        beta_(start_alpha, start_alpha + n_rows) {
    refresh_norm();
  }

  // From now on row i is row i of this part, which begins with the data's row `first`.
  void enter(const Rows &part, int64_t first) {
    rows_ = part;
    first_ = first;
  }

  double margin(int64_t i, double y) const {
    return y * scale_ * static_cast<double>(rows_.dot(i, v_.data()));
  }
  // Of the rows of the present part, for prefetching.
  const double *coefficients() const { return beta_.data() + first_; }
  double squared_norm() const { return scale_ * scale_ * squared_norm_; }

  // w <- factor w. A factor of 0 forgets everything.
  void shrink(double factor) {
    if (factor == 0)
      return clear();
    scale_ *= factor;
    // A rate that is not clipped may turn w round, or make it grow.
    if (const double size = std::abs(scale_); size < 1e-9 || size > 1e9)
      absorb_scale();
  }

  // w += coefficient y x_i, given the margin of that row at the present w.
  void add(int64_t i, double y, double coefficient, double margin, double row_squared_norm) {
    const double step = coefficient / scale_;
    squared_norm_ += 2 * step * margin / scale_ + step * step * row_squared_norm;
    rows_.add(i, static_cast<W>(step * y), v_.data());
    beta_[first_ + i] += step;
    if (averaging_) {
      rows_.add(i, static_cast<double>(sum_of_scales_ * step * y), u_.data());
      u_beta_[first_ + i] += sum_of_scales_ * step;
    }
  }

  // |w|^2 follows from the steps; this removes what rounding has added.
  void refresh_norm() {
    squared_norm_ = 0;
    for (const W vk : v_)
      squared_norm_ += static_cast<double>(vk) * vk;
  }

  // Starts the running average anew.
  void restart_average() {
    averaging_ = true;
    sum_of_scales_ = 0;
    n_averaged_ = 0;
    u_.assign(v_.size(), 0.0);
    u_beta_.assign(beta_.size(), 0.0);
  }

  // Counts the present w into the average.
  void count() {
    sum_of_scales_ += scale_;
    ++n_averaged_;
  }

  void current(double *w, double *alpha) const {
    std::transform(v_.begin(), v_.end(), w, [this](W vk) { return scale_ * vk; });
    std::transform(beta_.begin(), beta_.end(), alpha, [this](double b) { return scale_ * b; });
  }

  void average(double *w, double *alpha) const {
    if (!averaging_ || n_averaged_ == 0)
      return current(w, alpha);
    const auto n = static_cast<double>(n_averaged_);
    for (size_t k = 0; k < v_.size(); ++k)
      w[k] = (sum_of_scales_ * v_[k] - u_[k]) / n;
    for (size_t i = 0; i < beta_.size(); ++i)
      alpha[i] = (sum_of_scales_ * beta_[i] - u_beta_[i]) / n;
  }

private:
  void clear() {
    settle_sum();
    std::fill(v_.begin(), v_.end(), W(0));
    std::fill(beta_.begin(), beta_.end(), 0.0);
    scale_ = 1;
    squared_norm_ = 0;
  }

  // The sum so far, S v - u, moves into u, so that v may change at will.
  void settle_sum() {
    if (!averaging_)
      return;
    for (size_t k = 0; k < v_.size(); ++k)
      u_[k] -= sum_of_scales_ * v_[k];
    for (size_t i = 0; i < beta_.size(); ++i)
      u_beta_[i] -= sum_of_scales_ * beta_[i];
    sum_of_scales_ = 0;
  }

  void absorb_scale() {
    settle_sum();
    for (W &vk : v_)
      vk = static_cast<W>(vk * scale_);
    for (double &b : beta_)
      b *= scale_;
    squared_norm_ *= scale_ * scale_;
    scale_ = 1;
  }

  Rows rows_;
  int64_t first_ = 0;
  std::vector<W> v_;
  std::vector<double> beta_;
  double scale_ = 1, squared_norm_ = 0; // squared_norm_ = |v|^2
  bool averaging_ = false;
  double sum_of_scales_ = 0;
  int64_t n_averaged_ = 0;
  std::vector<double> u_, u_beta_;
};

} // namespace bridle
