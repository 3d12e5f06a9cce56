// Pegasos (Shalev-Shwartz, Singer & Srebro, ICML 2007): steps of the stochastic subgradient method
// on f(w) = lam/2 |w|^2 + 1/m sum c_i loss(p_i), lam = 1/(m C), with rate 1/(lam t):
//
//   w <- (1 - 1/t) w + (m/(k t)) sum_{i in A_t} C_i slope(p_i) z_i,  then onto the ball |w| <=
//   radius.
#pragma once

#include "rng.hpp"
#include "rows.hpp"
#include "sampling.hpp"
#include "scaled.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace bridle {

enum class Output { last, average, random };

class Pegasos {
public:
  virtual ~Pegasos() = default;
  virtual void run(int64_t n_steps, Rng &rng) = 0;
  virtual void restart_average() = 0;
  virtual void output(Output which, double *w, double *alpha) const = 0;
};

template <class Rows, class Loss> class PegasosOn final : public Pegasos {
public:
  // steps_before: the rate goes on as if that many steps had led to start_w = w(start_alpha).
  // radius: infinity when not projecting. keep_random: maintain an iterate drawn uniformly from
  // those seen (costs O(features) about ln T times).
  PegasosOn(const Rows &rows, const double *signed_cost, const double *squared_norms,
            const double *start_w, const double *start_alpha, int64_t steps_before, int64_t batch,
            double radius, Sampling sampling, bool keep_random)
      : rows_(rows), signed_cost_(signed_cost), squared_norms_(squared_norms), batch_(batch),
        radius_(radius), order_(sampling, rows.n_rows, batch), weights_(rows, start_w, start_alpha),
        picked_(batch), slopes_(batch), t_(steps_before) {
    if (keep_random) {
      random_w_.resize(rows.n_features + 1);
      random_alpha_.resize(rows.n_rows);
    }
  }

  void run(int64_t n_steps, Rng &rng) override {
    for (int64_t n = 0; n < n_steps; ++n)
      step(rng);
    weights_.refresh_norm();
  }

  void restart_average() override { weights_.restart_average(); }

  void output(Output which, double *w, double *alpha) const override {
    switch (which) {
    case Output::last:
      return weights_.current(w, alpha);
    case Output::average:
      return weights_.average(w, alpha);
    case Output::random:
      std::copy(random_w_.begin(), random_w_.end(), w);
      std::copy(random_alpha_.begin(), random_alpha_.end(), alpha);
    }
  }

private:
  static constexpr size_t rows_ahead = 8;

  double label(int64_t i) const { return std::copysign(1.0, signed_cost_[i]); }

  void step(Rng &rng) {
    ++t_;
    weights_.count();
    if (!random_w_.empty() && rng.below(++n_seen_) == 0)
      weights_.current(random_w_.data(), random_alpha_.data());

    for (int64_t k = 0; k < batch_; ++k) {
      const int64_t i = picked_[k] = order_.next(rng);
      if (const int64_t ahead = order_.peek(rows_ahead); ahead >= 0)
        rows_.prefetch(ahead);
      margin_ = weights_.margin(i, label(i));
      slopes_[k] = Loss::slope(margin_);
    }
    const auto t = static_cast<double>(t_);
    const double shrink = 1 - 1 / t;
    weights_.shrink(shrink);
    margin_ *= shrink;
    const double rate = static_cast<double>(rows_.n_rows) / (t * static_cast<double>(batch_));
    for (int64_t k = 0; k < batch_; ++k)
      if (slopes_[k] > 0)
        add(picked_[k], rate * slopes_[k]);
    project();
  }

  void add(int64_t i, double factor) {
    const double y = label(i);
    // |w|^2 needs the margin at the present w; in a batch of one it is known already.
    const double margin = batch_ == 1 || std::isinf(radius_) ? margin_ : weights_.margin(i, y);
    weights_.add(i, y, factor * std::abs(signed_cost_[i]), margin, squared_norms_[i]);
  }

  void project() {
    if (const double squared = weights_.squared_norm(); squared > radius_ * radius_)
      weights_.shrink(radius_ / std::sqrt(squared));
  }

  Rows rows_;
  const double *signed_cost_, *squared_norms_;
  int64_t batch_;
  double radius_;
  RowOrder order_;
  ScaledWeights<Rows> weights_;
  std::vector<int64_t> picked_;
  std::vector<double> slopes_;
  double margin_ = 0; // of the last row of the batch
  int64_t t_;
  int64_t n_seen_ = 0; // iterates that the random one was drawn from
  std::vector<double> random_w_, random_alpha_;
};

} // namespace bridle
