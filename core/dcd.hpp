// Dual coordinate descent (Hsieh, Chang, Lin, Keerthi & Sundararajan, ICML 2008, algorithm 3) for
//
//   min_alpha  1/2 |w(alpha)|^2 - sum alpha_i + 1/2 sum D_ii alpha_i^2,   0 <= alpha_i <= U_i,
//   w(alpha) = sum alpha_i z_i,  z_i = y_i x_i;   hinge: D_ii = 0, U_i = C_i;
//   squared hinge: D_ii = 1/(2 C_i), U_i = inf.
//
// The rows are visited in buckets of neighbours: the active rows stay in row order and only the
// buckets are permuted, so memory streams, at the same number of epochs as a full shuffle. When
// shrinking has left few rows, they are copied together: scattered over the whole matrix, each of
// them would cost a trip to memory.
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
  const int64_t n_rows, n_weights;

  DualCoordinateDescent(int64_t rows, int64_t weights) : n_rows(rows), n_weights(weights) {}
  virtual ~DualCoordinateDescent() = default;
  virtual DcdEpoch epoch(Rng &rng, int64_t bucket) = 0;
  virtual void unshrink() = 0;
  virtual void alpha(double *out) const = 0;
  virtual void weights(double *out) const = 0;
  virtual double bias() const = 0;
};

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

  // The weight of the constant feature: b over the feature's value.
  double weight() const { return present() ? value() * std::sqrt(precision_) : 0.0; }

private:
  double precision_, centre_, sigma_ = 1, balance_ = 0;
};

template <class Rows, class Loss> class DcdOn final : public DualCoordinateDescent {
public:
  // The weights have the precision of the data: float32 weights halve the cache they need, and an
  // error e in w costs only |e|^2 / 2 of the gap.
  using W = typename Rows::Value;

  // signed_cost: y_i C_i. squared_norms: with the constant feature, where the bias has one.
  DcdOn(const Rows &rows, const double *signed_cost, const double *squared_norms,
        const double *start_alpha, double start_bias, double bias_precision, int n_threads)
      : DualCoordinateDescent(rows.n_rows, rows.n_features + 1), rows_(without_constant(rows)),
        bias_(bias_precision, start_bias), w_(rows.n_features + 1), rested_(rows.n_rows) {
    for (int64_t i = 0; i < rows.n_rows; ++i) {
      const double squared_norm = squared_norms[i] - rows.bias * rows.bias;
      rested_[i] = {static_cast<W>(start_alpha[i]), static_cast<W>(squared_norm),
                    static_cast<W>(signed_cost[i])};
      mean_norm_ += squared_norm / static_cast<double>(rows.n_rows);
      mean_cost_ += std::abs(signed_cost[i]) / static_cast<double>(rows.n_rows);
    }
    start_weights(start_alpha, n_threads);
    unshrink();
    bias_.start(sigma(std::ssize(active_) / 10));
  }

  DcdEpoch epoch(Rng &rng, int64_t bucket) override {
    const auto n_active = static_cast<int64_t>(active_.size());
    order_.resize((n_active + bucket - 1) / bucket);
    std::iota(order_.begin(), order_.end(), int64_t{0});
    rng.shuffle(std::span(order_));

    pass_ = Pass{};
    pass_.bias = static_cast<W>(bias_.value());
    response_ = static_cast<W>(bias_.response());
    for (size_t b = 0; b < order_.size(); ++b) {
      const int64_t begin = order_[b] * bucket, end = std::min(begin + bucket, n_active);
      const int64_t next = b + 1 < order_.size() ? order_[b + 1] * bucket : end;
      for (int64_t j = begin; j < end; ++j) {
        // Past the end of this bucket comes the next one.
        const int64_t ahead = j + rows_ahead;
        const int64_t soon = ahead < end ? ahead : next + (ahead - end);
        if (soon < n_active)
          view_.prefetch(active_[soon].at);
        visit(active_[j]);
      }
    }
    bias_.add(pass_.balance);
    separable_ += pass_.separable;
    squared_weights_ += pass_.squared;
    const double gap = pass_.gap + bias_.gap();
    bias_.recentre(sigma(pass_.inside));

    const bool whole = n_active == n_useful_;
    drop_shrunk();
    shrink_above_ = pass_.largest <= 0 ? infinity : pass_.largest;
    shrink_below_ = pass_.smallest >= 0 ? -infinity : pass_.smallest;
    return {n_active, static_cast<int64_t>(active_.size()), gap, dual(), whole};
  }

  void unshrink() override {
    for (const Active &row : active_)
      rested_[row.row].alpha = row.alpha;
    active_.clear();
    for (int64_t i = 0; i < rows_.n_rows; ++i)
      if (rested_[i].signed_cost != 0)
        active_.push_back({rested_[i], i, i});
    n_useful_ = static_cast<int64_t>(active_.size());
    shrink_above_ = infinity;
    shrink_below_ = -infinity;
    view_ = rows_;
    compact_ = {};
    squared_weights_ = 0;
    for (const W wk : w_)
      squared_weights_ += static_cast<double>(wk) * wk;
  }

  void alpha(double *out) const override {
    for (int64_t i = 0; i < rows_.n_rows; ++i)
      out[i] = rested_[i].alpha;
    for (const Active &row : active_)
      out[row.row] = row.alpha;
  }

  void weights(double *out) const override {
    std::copy(w_.begin(), w_.end(), out);
    out[rows_.n_features] = bias_.weight();
  }

  double bias() const override { return bias_.value(); }

private:
  static constexpr W infinity = std::numeric_limits<W>::infinity();
  static constexpr int64_t rows_ahead = 4;

  struct Record {
    W alpha;
    W squared_norm;
    W signed_cost; // y_i C_i: the sign is the label
  };

  struct Active : Record {
    int64_t row; // in the matrix; -1 once it was shrunk in this pass
    int64_t at;  // in the view: the matrix, or the compact copy
  };

  struct Pass {
    W largest = -infinity, smallest = infinity; // of the projected gradients
    W bias = 0;
    double gap = 0, balance = 0;       // the gap seen; the changes of the dual's parts:
    double separable = 0, squared = 0; // sum alpha y, sum alpha [- ...], |w|^2
    int64_t inside = 0;                // rows strictly between their bounds
  };

  static Rows without_constant(Rows rows) {
    rows.bias = 0;
    return rows;
  }

  // n_inside rows, each answering a change of b by 1/norm, move b together by sigma n_inside / norm
  // times what is asked for: 30 is firm. Where the costs are small so is each row's noise, and b
  // may follow faster (both constants measured, on six sets and C from 0.01 to 100).
  double sigma(int64_t n_inside) const {
    const double norm = mean_norm_ > 0 ? mean_norm_ : 1.0;
    const double firmness = 30 * std::sqrt(std::max(1.0, 1 / (mean_cost_ * norm)));
    return norm * std::min(1.0, firmness / static_cast<double>(std::max<int64_t>(1, n_inside)));
  }

  void start_weights(const double *alpha, int n_threads) {
    std::vector<double> coefficients(rows_.n_rows), w(w_.size());
    double balance = 0;
    bool zero = true;
    for (int64_t i = 0; i < rows_.n_rows; ++i) {
      const W signed_cost = rested_[i].signed_cost;
      coefficients[i] = std::copysign(alpha[i], signed_cost);
      balance += coefficients[i];
      if (signed_cost != 0)
        separable_ += separable(rested_[i].alpha, std::abs(signed_cost));
      zero &= alpha[i] == 0;
    }
    if (zero)
      return;
    bias_.set_balance(balance);
    combine(rows_, coefficients.data(), w.data(), nullptr, nullptr, n_threads);
    std::copy(w.begin(), w.end(), w_.begin());
  }

  // A row's part of the dual but for 1/2 |w|^2.
  static double separable(W alpha, W cost) {
    return Loss::target * static_cast<double>(alpha) -
           0.5 * static_cast<double>(Loss::curvature(cost)) * alpha * alpha;
  }

  void visit(Active &row) {
    const W y = std::copysign(W(1), row.signed_cost), cost = std::abs(row.signed_cost);
    const W upper = Loss::upper(cost), curvature = Loss::curvature(cost);
    const W score = view_.dot(row.at, w_.data());
    const W p = y * (score + pass_.bias);
    const W gradient = p - W(Loss::target) + row.alpha * curvature;
    pass_.gap += Loss::gap(p, row.alpha, cost);

    W projected = gradient;
    if (row.alpha <= 0) {
      if (gradient > shrink_above_)
        return shrink(row);
      projected = std::min(gradient, W(0));
    } else if (row.alpha >= upper) {
      if (gradient < shrink_below_)
        return shrink(row);
      projected = std::max(gradient, W(0));
    }
    pass_.largest = std::max(pass_.largest, projected);
    pass_.smallest = std::min(pass_.smallest, projected);
    if (projected != 0)
      step(row, y, score, gradient, upper, row.squared_norm + response_ + curvature);
    pass_.inside += row.alpha > 0 && row.alpha < upper;
  }

  void step(Active &row, W y, W score, W gradient, W upper, W denominator) {
    // A row of zeros has no say in w: its dual variable goes straight to its bound, if it has one.
    const W bound = upper < infinity ? upper : row.alpha;
    const W target = denominator > 0 ? row.alpha - gradient / denominator : bound;
    const W next = std::clamp(target, W(0), upper);
    const W delta = (next - row.alpha) * y;
    if (delta == 0)
      return;
    const W cost = std::abs(row.signed_cost);
    pass_.separable += separable(next, cost) - separable(row.alpha, cost);
    pass_.squared += static_cast<double>(delta * (2 * score + delta * row.squared_norm));
    row.alpha = next;
    view_.add(row.at, delta, w_.data());
    pass_.bias += response_ * delta;
    pass_.balance += static_cast<double>(delta);
  }

  void shrink(Active &row) {
    rested_[row.row].alpha = row.alpha;
    row.row = -1;
  }

  void drop_shrunk() {
    std::erase_if(active_, [](const Active &row) { return row.row < 0; });
    compact_if_few();
  }

  // At most a fifth of the matrix is ever copied.
  void compact_if_few() {
    int64_t nnz = 0;
    for (const Active &row : active_)
      nnz += view_.row_nnz(row.at);
    if (5 * nnz > rows_.nnz() || 2 * nnz > view_.nnz())
      return;
    typename Rows::Copy copy;
    copy.reserve(static_cast<int64_t>(active_.size()), nnz);
    for (Active &row : active_)
      row.at = copy.append(view_, row.at);
    compact_ = std::move(copy);
    view_ = compact_.view(rows_);
  }

  double dual() const { return separable_ - 0.5 * squared_weights_ + bias_.dual(); }

  Rows rows_, view_; // the matrix; what the active rows are read from
  typename Rows::Copy compact_;
  ProximalBias bias_;
  std::vector<W> w_;
  std::vector<Record> rested_; // all rows; alpha is up to date for those that are not active
  std::vector<Active> active_; // in row order
  std::vector<int64_t> order_; // of the buckets
  int64_t n_useful_ = 0;       // rows with C_i > 0
  double mean_norm_ = 0, mean_cost_ = 0, separable_ = 0, squared_weights_ = 0;
  W shrink_above_ = infinity, shrink_below_ = -infinity, response_ = 0;
  Pass pass_;
};

} // namespace bridle
