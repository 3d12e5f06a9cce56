// Stochastic subgradient steps on f(w) = lam/2 |w|^2 + 1/m sum c_i loss(p_i), lam = 1/(m C), the
// same for Pegasos, sgd, svmsgd and asgd. With rho_t = lam eta_t, a step on the k rows A_t is
//
//   w <- (1 - rho_t) w + rho_t (m/k) sum_{i in A_t} C_i slope(p_i) z_i,  then onto |w| <= radius.
//
// A free bias b takes the same step without shrinking, at a fraction of the rate.
#pragma once

#include "base/rng.hpp"
#include "linear/part_of.hpp"
#include "linear/row_sides.hpp"
#include "linear/sampling.hpp"
#include "linear/scaled_weights.hpp"
#include "losses.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

// rho_t = scale (offset + t)^-power for t = 1, 2, ... Clipped, it is never above 1, beyond which w
// would change sign and, beyond 2, grow with every step; and no row moves w too far (`furthest`).
struct Rate {
  double scale, offset, power;
  bool clip = true;

  double at(int64_t t) const {
    const double x = offset + static_cast<double>(t);
    const double rho = power == 1 ? scale / x : power == 0 ? scale : scale * std::pow(x, -power);
    return clip ? std::min(1.0, rho) : rho;
  }
};

enum class Output { last, average, random };

class StochasticGradient {
public:
  const int64_t n_rows, n_weights;

  StochasticGradient(int64_t rows, int64_t weights) : n_rows(rows), n_weights(weights) {}
  virtual ~StochasticGradient() = default;
  virtual void run(int64_t n_steps, Rng &rng) = 0;
  // The steps to come are on this part of the data, which begins with row `first`.
  virtual void enter(const AnyRows &part, const RowSides &sides, int64_t first) = 0;
  virtual void set_rate(Rate rate, int64_t t) = 0; // the next step is number t + 1
  virtual void set_bias(double bias) = 0;
  virtual void restart_average() = 0;
  // Fills in w and alpha with w = w(alpha), as far as the start was such; returns the free bias.
  virtual double output(Output which, double *w, double *alpha) const = 0;
};

struct SgdSettings {
  Rate rate;
  int64_t steps_before; // the rate goes on as if that many steps had led to the start
  int64_t batch;
  double radius;    // infinity when not projecting
  double bias_rate; // of a free bias, as a fraction of the rate; 0 when there is none
  Sampling sampling;
  int64_t bucket;
  bool keep_random; // maintain an iterate drawn uniformly from those seen: O(features), ln T times
};

template <RowsLike Rows> class SgdOn final : public StochasticGradient {
public:
  // n_rows: of the data, of which `rows` may be a part; start_alpha has as many entries.
  SgdOn(const Rows &rows, const AnySlope &loss, const RowSides &sides, const double *start_w,
        double start_bias, const double *start_alpha, int64_t n_rows, const SgdSettings &settings)
      : StochasticGradient(n_rows, rows.n_features + 1), rows_(rows), loss_(loss), sides_(sides),
        rate_(settings.rate), batch_(settings.batch), radius_(settings.radius),
        bias_rate_(settings.bias_rate), bucket_(settings.bucket),
        order_(settings.sampling, rows.n_rows, settings.batch, settings.bucket),
        weights_(rows, start_w, start_alpha, n_rows), bias_(start_bias), picked_(settings.batch),
        t_(settings.steps_before) {
    if (settings.keep_random) {
      random_w_.resize(rows.n_features + 1);
      random_alpha_.resize(n_rows);
    }
  }

  void enter(const AnyRows &part, const RowSides &sides, int64_t first) override {
    rows_ = part_of(rows_, part, first, n_rows);
    sides_ = sides;
    order_ = RowOrder(Sampling::epochs, rows_.n_rows, batch_, bucket_);
    weights_.enter(rows_, first);
  }

  void run(int64_t n_steps, Rng &rng) override {
    for (int64_t n = 0; n < n_steps; ++n)
      step(rng);
    weights_.refresh_norm();
  }

  void set_rate(Rate rate, int64_t t) override {
    rate_ = rate;
    t_ = t;
  }

  void set_bias(double bias) override { bias_ = bias; }

  void restart_average() override {
    weights_.restart_average();
    sum_of_biases_ = 0;
    n_averaged_ = 0;
  }

  double output(Output which, double *w, double *alpha) const override {
    switch (which) {
    case Output::average:
      weights_.average(w, alpha);
      return n_averaged_ > 0 ? sum_of_biases_ / static_cast<double>(n_averaged_) : bias_;
    case Output::random:
      std::copy(random_w_.begin(), random_w_.end(), w);
      std::copy(random_alpha_.begin(), random_alpha_.end(), alpha);
      return random_bias_;
    default:
      weights_.current(w, alpha);
      return bias_;
    }
  }

private:
  struct Picked {
    int64_t row;
    double margin, coefficient; // of the row, in units of rho m/k
  };

  void step(Rng &rng) {
    note_present();
    if (!random_w_.empty() && rng.below(++n_seen_) == 0)
      random_bias_ = output(Output::last, random_w_.data(), random_alpha_.data());

    const double rho = rate_.at(++t_);
    const double share = rho * static_cast<double>(n_rows) / static_cast<double>(batch_);
    for (Picked &picked : picked_)
      picked = pick(order_.next(rng), share);
    weights_.shrink(1 - rho);
    for (const Picked &picked : picked_)
      if (picked.coefficient != 0)
        add(picked, 1 - rho);
    project();
  }

  void note_present() {
    weights_.count();
    sum_of_biases_ += bias_;
    ++n_averaged_;
  }

  Picked pick(int64_t i, double share) const {
    order_.prefetch(rows_, sides_.signed_cost, sides_.squared_norms, weights_.coefficients());
    const double y = sides_.label(i), along = weights_.margin(i, y);
    const double p = along + y * bias_ - sides_.target(i);
    double coefficient = share * sides_.cost(i) * loss_.at(p);
    if (!loss_.bounded && rate_.clip)
      coefficient = limited(coefficient, furthest(i, p));
    return {i, along, coefficient};
  }

  // Where the slope grows with the distance, too long a step ends further away than it began, and
  // the next one further still. No row moves w beyond the point where its own loss is 0.
  double furthest(int64_t i, double p) const {
    const double reach = static_cast<double>(batch_) * (sides_.squared_norms[i] + bias_rate_);
    return reach > 0 ? (loss_.target - p) / reach : 0.0;
  }

  void add(const Picked &picked, double shrunk) {
    const int64_t i = picked.row;
    const double y = sides_.label(i);
    // |w|^2 needs the margin at the present w; in a batch of one it is known already.
    const double margin = batch_ == 1           ? picked.margin * shrunk
                          : std::isinf(radius_) ? 0.0
                                                : weights_.margin(i, y);
    weights_.add(i, y, picked.coefficient, margin, sides_.squared_norms[i]);
    bias_ += bias_rate_ * picked.coefficient * y;
  }

  void project() {
    if (const double squared = weights_.squared_norm(); squared > radius_ * radius_)
      weights_.shrink(radius_ / std::sqrt(squared));
  }

  Rows rows_;
  AnySlope loss_;
  RowSides sides_;
  Rate rate_;
  int64_t batch_;
  double radius_, bias_rate_;
  int64_t bucket_;
  RowOrder order_;
  ScaledWeights<Rows> weights_;
  double bias_, sum_of_biases_ = 0;
  std::vector<Picked> picked_;
  int64_t t_, n_averaged_ = 0;
  int64_t n_seen_ = 0; // iterates that the random one was drawn from
  std::vector<double> random_w_, random_alpha_;
  double random_bias_ = 0;
};

} // namespace bridle
