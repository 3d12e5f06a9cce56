// Dual coordinate descent (Hsieh, Chang, Lin, Keerthi & Sundararajan, ICML 2008, algorithm 3) for
//
//   min_alpha  1/2 |w(alpha)|^2 - sum alpha_i + 1/2 sum D_ii alpha_i^2,   0 <= alpha_i <= U_i,
//   w(alpha) = sum alpha_i z_i,  z_i = y_i x_i;   hinge: D_ii = 0, U_i = C_i;
//   squared hinge: D_ii = 1/(2 C_i), U_i = inf.
//
// A free bias adds the constraint sum alpha_i y_i = 0, handled by an augmented Lagrangian: the
// penalty rho/2 (sum alpha_i y_i)^2 with multiplier b_0, so that b = b_0 + rho sum alpha_j y_j.
//
// The rows are visited in buckets of neighbours: the active rows stay in row order and only the
// buckets are permuted, so memory streams, at the same number of epochs as a full shuffle.
#pragma once

#include "losses.hpp"
#include "passes.hpp"
#include "rng.hpp"
#include "rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace bridle {

struct DcdEpoch {
  int64_t visits; // rows looked at
  int64_t active; // rows left after shrinking
  double gap;     // sum of the rows' parts of P - D, each taken when it was visited
  double dual;    // D(alpha) after the epoch, from the running w
  bool whole;     // the epoch visited every row
};

class DualCoordinateDescent {
public:
  virtual ~DualCoordinateDescent() = default;
  virtual DcdEpoch epoch(Rng &rng, int64_t bucket) = 0;
  virtual void unshrink() = 0;
  virtual void alpha(double *out) const = 0;
  virtual void weights(double *out) const = 0;
  virtual double bias() const = 0;
  virtual void update_multiplier() = 0;
};

template <class Rows, class Loss> class DcdOn final : public DualCoordinateDescent {
public:
  // The weights have the precision of the data: float32 weights halve the cache they need, and an
  // error e in w costs only |e|^2 / 2 of the gap.
  using W = typename Rows::Value;

  // signed_cost: y_i C_i. rho: 0 unless the bias is free.
  DcdOn(const Rows &rows, const double *signed_cost, const double *squared_norms,
        const double *start_alpha, double start_bias, double rho, int n_threads)
      : rows_(rows), rho_(static_cast<W>(rho)), multiplier_(start_bias), w_(rows.n_features + 1),
        records_(rows.n_rows) {
    for (int64_t i = 0; i < rows.n_rows; ++i)
      records_[i] = {static_cast<W>(start_alpha[i]), static_cast<W>(squared_norms[i]),
                     static_cast<W>(signed_cost[i])};
    start_weights(start_alpha, signed_cost, n_threads);
    unshrink();
  }

  DcdEpoch epoch(Rng &rng, int64_t bucket) override {
    const auto n_active = static_cast<int64_t>(active_.size());
    order_.resize((n_active + bucket - 1) / bucket);
    std::iota(order_.begin(), order_.end(), int64_t{0});
    rng.shuffle(std::span(order_));

    pass_ = Pass{};
    for (size_t b = 0; b < order_.size(); ++b) {
      const int64_t begin = order_[b] * bucket, end = std::min(begin + bucket, n_active);
      if (b + 1 < order_.size())
        prefetch_bucket(order_[b + 1] * bucket);
      for (int64_t j = begin; j < end; ++j)
        visit(j);
    }

    const bool whole = n_active == n_useful_;
    std::erase_if(active_, [](int64_t i) { return i < 0; });
    shrink_above_ = pass_.largest <= 0 ? infinity : pass_.largest;
    shrink_below_ = pass_.smallest >= 0 ? -infinity : pass_.smallest;
    return {n_active, static_cast<int64_t>(active_.size()), pass_.gap, dual(), whole};
  }

  void unshrink() override {
    active_.clear();
    for (int64_t i = 0; i < rows_.n_rows; ++i)
      if (records_[i].signed_cost != 0)
        active_.push_back(i);
    n_useful_ = static_cast<int64_t>(active_.size());
    shrink_above_ = infinity;
    shrink_below_ = -infinity;
  }

  void alpha(double *out) const override {
    for (int64_t i = 0; i < rows_.n_rows; ++i)
      out[i] = records_[i].alpha;
  }

  void weights(double *out) const override { std::copy(w_.begin(), w_.end(), out); }

  double bias() const override { return multiplier_ + static_cast<double>(rho_) * balance_; }

  // b_0 <- b_0 + rho sum alpha_j y_j: the method of multipliers.
  void update_multiplier() override { multiplier_ = bias(); }

private:
  static constexpr W infinity = std::numeric_limits<W>::infinity();
  static constexpr int64_t rows_ahead = 4;

  struct Record {
    W alpha;
    W squared_norm;
    W signed_cost; // y_i C_i: the sign is the label
  };

  struct Pass {
    W largest = -infinity, smallest = infinity; // of the projected gradients
    double gap = 0;
  };

  void start_weights(const double *alpha, const double *signed_cost, int n_threads) {
    std::vector<double> coefficients(rows_.n_rows), w(w_.size());
    bool zero = true;
    for (int64_t i = 0; i < rows_.n_rows; ++i) {
      coefficients[i] = std::copysign(alpha[i], signed_cost[i]);
      balance_ += coefficients[i];
      zero &= alpha[i] == 0;
    }
    if (zero)
      return;
    combine(rows_, coefficients.data(), w.data(), nullptr, nullptr, n_threads);
    std::copy(w.begin(), w.end(), w_.begin());
    // The multiplier absorbs what the start violates of the constraint, so that b is start_bias.
    multiplier_ -= static_cast<double>(rho_) * balance_;
  }

  void prefetch_bucket(int64_t begin) const {
    const auto end = std::min<int64_t>(begin + rows_ahead, active_.size());
    for (int64_t j = begin; j < end; ++j)
      rows_.prefetch(std::abs(active_[j]));
  }

  void visit(int64_t j) {
    const int64_t i = active_[j];
    if (j + rows_ahead < static_cast<int64_t>(active_.size()))
      rows_.prefetch(std::abs(active_[j + rows_ahead]));
    Record &row = records_[i];
    const W y = std::copysign(W(1), row.signed_cost), cost = std::abs(row.signed_cost);
    const W upper = Loss::upper(cost), curvature = Loss::curvature(cost);
    const W p = y * (rows_.dot(i, w_.data()) + static_cast<W>(bias_offset()));
    const W gradient = p - W(Loss::target) + row.alpha * curvature;
    pass_.gap += Loss::gap(p, row.alpha, cost);

    W projected = gradient;
    if (row.alpha <= 0) {
      if (gradient > shrink_above_)
        return shrink(j);
      projected = std::min(gradient, W(0));
    } else if (row.alpha >= upper) {
      if (gradient < shrink_below_)
        return shrink(j);
      projected = std::max(gradient, W(0));
    }
    pass_.largest = std::max(pass_.largest, projected);
    pass_.smallest = std::min(pass_.smallest, projected);
    if (projected != 0)
      step(i, row, y, gradient, upper, row.squared_norm + rho_ + curvature);
  }

  void step(int64_t i, Record &row, W y, W gradient, W upper, W denominator) {
    // A row of zeros has no say in w: its dual variable goes straight to its bound, if it has one.
    const W bound = upper < infinity ? upper : row.alpha;
    const W target = denominator > 0 ? row.alpha - gradient / denominator : bound;
    const W next = std::clamp(target, W(0), upper);
    const W delta = next - row.alpha;
    if (delta == 0)
      return;
    row.alpha = next;
    rows_.add(i, delta * y, w_.data());
    balance_ += static_cast<double>(delta * y);
  }

  double bias_offset() const { return rho_ > 0 ? bias() : 0.0; }

  // Row 0 needs a mark too, hence the offset by one.
  void shrink(int64_t j) { active_[j] = -1 - active_[j]; }

  double dual() const {
    double sum = 0, squared = 0;
    for (const Record &row : records_)
      if (row.signed_cost != 0)
        sum += Loss::target * row.alpha -
               0.5 * Loss::curvature(std::abs(row.signed_cost)) * row.alpha * row.alpha;
    for (const W wk : w_)
      squared += static_cast<double>(wk) * wk;
    return sum - 0.5 * squared;
  }

  Rows rows_;
  W rho_;
  double multiplier_, balance_ = 0; // balance: sum alpha_i y_i
  std::vector<W> w_;
  std::vector<Record> records_;
  std::vector<int64_t> active_, order_; // active rows in row order; the order of the buckets
  int64_t n_useful_ = 0;                // rows with C_i > 0
  W shrink_above_ = infinity, shrink_below_ = -infinity;
  Pass pass_;
};

} // namespace bridle
