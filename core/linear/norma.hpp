// NORMA (Kivinen, Smola & Williamson 2004) with the linear kernel: online gradient steps at a
// constant rate, w <- (1 - rho) w + rho m C_i z_i on a margin error, in which every term decays by
// 1 - rho a step and is dropped when it is tau steps old. At any time w has at most tau terms, and
//
//   |w - w without dropping| <= m max_i C_i |z_i| (1 - rho)^tau.
#pragma once

#include "base/rng.hpp"
#include "linear/sampling.hpp"
#include "linear/scaled_weights.hpp"
#include "losses.hpp"
#include "rows/views.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

class Norma {
public:
  const int64_t n_rows, n_weights;

  Norma(int64_t rows, int64_t weights) : n_rows(rows), n_weights(weights) {}
  virtual ~Norma() = default;
  virtual void run(int64_t n_steps, Rng &rng) = 0;
  virtual void output(double *w, double *alpha) const = 0;

  int64_t n_terms = 0;
};

template <RowsLike Rows> class NormaOn final : public Norma {
public:
  NormaOn(const Rows &rows, const double *signed_cost, const double *squared_norms,
          const double *start_w, const double *start_alpha, double rho, int64_t tau,
          Sampling sampling, int64_t bucket)
      : Norma(rows.n_rows, rows.n_features + 1), rows_(rows), signed_cost_(signed_cost),
        squared_norms_(squared_norms), rho_(rho),
        faded_(std::pow(1 - rho, static_cast<double>(tau))),
        order_(sampling, rows.n_rows, 1, bucket), weights_(rows, start_w, start_alpha, rows.n_rows),
        window_(tau, -1) {}

  void run(int64_t n_steps, Rng &rng) override {
    for (int64_t n = 0; n < n_steps; ++n)
      step(order_.next(rng));
  }

  void output(double *w, double *alpha) const override { weights_.current(w, alpha); }

private:
  // rho m C_i: what a row enters with.
  double entry(int64_t i) const {
    return rho_ * static_cast<double>(n_rows) * std::abs(signed_cost_[i]);
  }
  double label(int64_t i) const { return std::copysign(1.0, signed_cost_[i]); }

  void step(int64_t i) {
    order_.prefetch(rows_, signed_cost_);
    const double p = weights_.margin(i, label(i));
    weights_.shrink(1 - rho_);
    int64_t &slot = window_[position_];
    position_ = position_ + 1 == window_.size() ? 0 : position_ + 1;
    if (slot >= 0) {
      weights_.add(slot, label(slot), -entry(slot) * faded_, 0.0, squared_norms_[slot]);
      --n_terms;
    }
    slot = -1;
    if (Hinge{}.slope(p) > 0 && signed_cost_[i] != 0) {
      weights_.add(i, label(i), entry(i), 0.0, squared_norms_[i]);
      slot = i;
      ++n_terms;
    }
  }

  Rows rows_;
  const double *signed_cost_, *squared_norms_;
  double rho_, faded_;
  RowOrder order_;
  ScaledWeights<Rows> weights_;
  std::vector<int64_t> window_; // the row that each of the last tau steps added, or -1
  size_t position_ = 0;
};

} // namespace bridle
