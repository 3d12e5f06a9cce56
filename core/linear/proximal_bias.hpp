// The intercept of dual coordinate descent, on one machine or many.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace bridle {

// The intercept, with precision/2 b^2 in the objective: 0 for a free bias, infinite for none. With
// beta = sum alpha_i y_i its part of the dual is
//
//   -beta^2 / (2 precision) = min_b  precision/2 b^2 - b beta,   so that b = beta / precision.
//
// Kept that way, b answers every step of every row at once and at full strength: each visit sees
// the noise of the last few, and undoes it (4 times the epochs, where C is not small; for a free
// bias it would be a constraint that no single coordinate can move along). So b is held near a
// centre by (b - centre)^2 / (2 sigma): b = (beta + centre/sigma) / (precision + 1/sigma), with a
// sigma so small that single steps hardly move it, and that all of them together do. Moving the
// centre to b after every epoch is the proximal point method in one variable (for a free bias, the
// method of multipliers).
class ProximalBias {
public:
  ProximalBias(double precision, double start) : precision_(precision), centre_(start) {}

  bool present() const { return std::isfinite(precision_); }

  void set_balance(double beta) { balance_ = beta; }
  void add(double beta) { balance_ += beta; }

  // The centre goes to b; from now on the bias follows with this sigma.
  void recentre(double sigma) {
    centre_ = value();
    sigma_ = sigma;
  }

  // Starts at the given value whatever the balance is.
  void start(double sigma) {
    sigma_ = sigma;
    if (present())
      centre_ = sigma * (centre_ / response() - balance_);
  }

  // db / d beta
  double response() const { return present() ? 1 / (precision_ + 1 / sigma_) : 0.0; }
  double value() const { return present() ? response() * (balance_ + centre_ / sigma_) : 0.0; }

  // What b costs the gap for not being beta / precision; a free bias has no such price.
  double gap() const {
    if (!present() || precision_ == 0)
      return 0;
    const double distance = value() - balance_ / precision_;
    return 0.5 * precision_ * distance * distance;
  }

  double dual() const {
    return present() && precision_ > 0 ? -0.5 * balance_ * balance_ / precision_ : 0.0;
  }

  // b if the balance were this many times as large and the change since then had been added.
  double value(double scale, double change) const {
    return present() ? response() * (scale * (balance_ + change) + centre_ / sigma_) : 0.0;
  }

  // The weight of the constant feature: b over the feature's value.
  double weight() const { return weight(1); }
  double weight(double scale) const {
    return present() ? value(scale, 0) * std::sqrt(precision_) : 0.0;
  }

private:
  double precision_, centre_, sigma_ = 1, balance_ = 0;
};

// n_inside rows, each answering a change of b by 1/norm, move b together by sigma n_inside / norm
// times what is asked for: 30 is firm. Where the costs are small so is each row's noise, and b
// may follow faster (both constants measured, on six sets and C from 0.01 to 100).
inline double proximal_sigma(double mean_norm, double mean_cost, int64_t n_inside) {
  const double norm = mean_norm > 0 ? mean_norm : 1.0;
  const double firmness = 30 * std::sqrt(std::max(1.0, 1 / (mean_cost * norm)));
  return norm * std::min(1.0, firmness / static_cast<double>(std::max<int64_t>(1, n_inside)));
}

} // namespace bridle
