// SGD-QN (Bordes, Bottou & Gallinari 2009, with the correction of 2010): stochastic gradient steps
// scaled by a diagonal B that learns the curvature, on lam/2 |w|^2 + 1/m sum c_i loss(p_i):
//
//   w += c_i slope(p_i) B z_i  at each row;  every `skip` steps  w -= skip lam B w,  and after the
//   next row  B_j <- B_j / (1 + skip B_j r_j),  r_j = clip(lam + dg_j/dw_j, lam, 100 lam),
//
// where dw is what that row changed in w and dg what this changed in the gradient of its own loss;
// r_j = lam where w_j did not move. All B_j start at eta_0; there is no other rate.
#pragma once

#include "base/rng.hpp"
#include "linear/part_of.hpp"
#include "linear/row_sides.hpp"
#include "linear/sampling.hpp"
#include "losses.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

class SgdQn {
public:
  const int64_t n_weights;

  explicit SgdQn(int64_t weights) : n_weights(weights) {}
  virtual ~SgdQn() = default;
  virtual void run(int64_t n_steps, Rng &rng) = 0;
  // The steps to come are on this part of the data.
  virtual void enter(const AnyRows &part, const RowSides &sides) = 0;
  virtual void weights(double *w) const = 0;
  virtual void scales(double *b) const = 0;
};

template <RowsLike Rows> class SgdQnOn final : public SgdQn {
public:
  using W = typename Rows::Value;

  // sides: with y_i c_i for y_i C_i.
  SgdQnOn(const Rows &rows, const AnySlope &loss, const RowSides &sides, const double *start_w,
          double lam, double eta0, int64_t skip, Sampling sampling, int64_t bucket)
      : SgdQn(rows.n_features + 1), rows_(rows), loss_(loss), sides_(sides), lam_(lam), skip_(skip),
        until_shrink_(skip), bucket_(bucket), order_(sampling, rows.n_rows, 1, bucket),
        w_(start_w, start_w + n_weights), scale_(n_weights, static_cast<W>(eta0)) {}

  void run(int64_t n_steps, Rng &rng) override {
    for (int64_t n = 0; n < n_steps; ++n)
      step(order_.next(rng));
  }

  void enter(const AnyRows &part, const RowSides &sides) override {
    rows_ = part_of(rows_, part);
    sides_ = sides;
    order_ = RowOrder(Sampling::epochs, rows_.n_rows, 1, bucket_);
  }

  void weights(double *w) const override { std::copy(w_.begin(), w_.end(), w); }
  void scales(double *b) const override { std::copy(scale_.begin(), scale_.end(), b); }

private:
  static constexpr double widest = 100; // r is at most this many lam

  void step(int64_t i) {
    order_.prefetch(rows_, sides_.signed_cost);
    const double y = sides_.label(i), c = sides_.cost(i);
    const double p = margin(i, y);
    const double coefficient = c * limited_slope(i, p, c);
    if (coefficient != 0)
      for_all(i, [&](int64_t j, double x) {
        w_[j] += static_cast<W>(coefficient * y * x * scale_[j]);
      });
    if (learn_) {
      learn_scales(i, coefficient, c * (loss_.at(p) - loss_.at(margin(i, y))));
      learn_ = false;
    }
    if (--until_shrink_ == 0) {
      const double factor = static_cast<double>(skip_) * lam_;
      for (int64_t j = 0; j < n_weights; ++j)
        w_[j] *= static_cast<W>(std::max(0.0, 1 - factor * scale_[j]));
      until_shrink_ = skip_;
      learn_ = true;
    }
  }

  double margin(int64_t i, double y) const {
    return y * static_cast<double>(rows_.dot(i, w_.data())) - sides_.target(i);
  }

  // Where the slope grows with the distance, a step no longer than to where the row's loss is 0.
  double limited_slope(int64_t i, double p, double c) const {
    const double slope = loss_.at(p);
    if (loss_.bounded)
      return slope;
    double reach = 0;
    for_all(i, [&](int64_t j, double x) { reach += c * x * x * scale_[j]; });
    return reach > 0 ? limited(slope, (loss_.target - p) / reach) : 0.0;
  }

  // The row moved w_j by coefficient y x_j B_j and its loss gradient by slope_change y x_j.
  void learn_scales(int64_t i, double coefficient, double slope_change) {
    const double skip = static_cast<double>(skip_);
    // Every coordinate by r = lam first; the row's own are then brought to their r.
    if (coefficient != 0)
      for_all(i, [&](int64_t j, double x) {
        if (x == 0)
          return;
        const double b = scale_[j];
        const double r = std::clamp(lam_ + slope_change / (coefficient * b), lam_, widest * lam_);
        // Divided by 1 + skip b lam below like the others.
        scale_[j] = static_cast<W>(b / (1 + skip * b * (r - lam_)));
      });
    for (W &b : scale_)
      b = static_cast<W>(b / (1 + skip * b * lam_));
  }

  // Every entry of a row, the constant feature included.
  template <class Visit> void for_all(int64_t i, Visit &&visit) const {
    rows_.for_each(i, [&](int64_t j, auto x) { visit(j, static_cast<double>(x)); });
    if (rows_.bias != 0)
      visit(rows_.n_features, rows_.bias);
  }

  Rows rows_;
  AnySlope loss_;
  RowSides sides_;
  double lam_;
  int64_t skip_, until_shrink_, bucket_;
  bool learn_ = false;
  RowOrder order_;
  std::vector<W> w_, scale_; // scale: B
};

} // namespace bridle
