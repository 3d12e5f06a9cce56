// The margin perceptron with unlearning: dual variables made of B quanta of C_i/B each,
//
//   w = sum_i h_i I_i z_i,   h_i = C_i/B,   I_i in 0..B.
//
// A visit learns a quantum when 1 - p_i >= h_i q_i and unlearns one when p_i - 1 >= h_i q_i,
// q_i = |z_i|^2: either way D rises by at least h_i^2 q_i/2, so there are finitely many updates,
// and a pass without one proves P - D <= (1/B) sum_i C_i^2 q_i.
#pragma once

#include "base/rng.hpp"
#include "linear/part_of.hpp"
#include "linear/sampling.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

class MarginPerceptronUnlearning {
public:
  const int64_t n_rows, n_weights;

  MarginPerceptronUnlearning(int64_t rows, int64_t weights) : n_rows(rows), n_weights(weights) {}
  virtual ~MarginPerceptronUnlearning() = default;
  virtual void run(int64_t n_visits, Rng &rng) = 0;
  // B <- 2B, I <- 2I: the same alpha in halved quanta.
  virtual void halve_quanta() = 0;
  // The visits to come are on this part of the data, which begins with row `first`.
  virtual void enter(const AnyRows &part, const double *signed_cost, const double *squared_norms,
                     int64_t first) = 0;
  // shares: alpha_i / C_i.
  virtual void output(double *w, double *shares) const = 0;
  virtual double dual() const = 0;

  int64_t updates = 0; // made by the last run
  double gap = 0;      // sum of the rows' parts of P - D as the last run met them
  double total = 0;    // sum alpha_i
};

template <RowsLike Rows> class MpuOn final : public MarginPerceptronUnlearning {
public:
  using W = typename Rows::Value;

  // start_quanta: I_i, whole numbers in 0..quanta. many: as many quanta at a visit as the row asks.
  // n_rows: of the data, of which `rows` may be the first part.
  MpuOn(const Rows &rows, const double *signed_cost, const double *squared_norms,
        const double *start_w, const double *start_quanta, double quanta, bool many, int64_t bucket,
        int64_t n_rows)
      : MarginPerceptronUnlearning(n_rows, rows.n_features + 1), rows_(rows),
        signed_cost_(signed_cost), squared_norms_(squared_norms), quanta_(quanta), many_(many),
        bucket_(bucket), order_(Sampling::epochs, rows.n_rows, 1, bucket),
        w_(start_w, start_w + n_weights), held_(start_quanta, start_quanta + n_rows) {
    for (int64_t i = 0; i < rows.n_rows; ++i)
      total += std::abs(signed_cost[i]) * (held_[i] / quanta);
  }

  void run(int64_t n_visits, Rng &rng) override {
    updates = 0;
    gap = 0;
    for (int64_t n = 0; n < n_visits; ++n)
      visit(order_.next(rng));
  }

  void halve_quanta() override {
    quanta_ *= 2;
    for (double &held : held_)
      held *= 2;
  }

  void enter(const AnyRows &part, const double *signed_cost, const double *squared_norms,
             int64_t first) override {
    rows_ = part_of(rows_, part, first, n_rows);
    signed_cost_ = signed_cost;
    squared_norms_ = squared_norms;
    first_ = first;
    order_ = RowOrder(Sampling::epochs, rows_.n_rows, 1, bucket_);
  }

  void output(double *w, double *shares) const override {
    std::copy(w_.begin(), w_.end(), w);
    for (int64_t i = 0; i < n_rows; ++i)
      shares[i] = held_[i] / quanta_;
  }

  double dual() const override {
    double squared = 0;
    for (const W wk : w_)
      squared += static_cast<double>(wk) * wk;
    return total - 0.5 * squared;
  }

private:
  void visit(int64_t i) {
    order_.prefetch(rows_, signed_cost_, squared_norms_, held_.data() + first_);
    const double y = std::copysign(1.0, signed_cost_[i]), cost = std::abs(signed_cost_[i]);
    if (cost == 0)
      return;
    const double quantum = cost / quanta_;
    const double slack = 1 - y * static_cast<double>(rows_.dot(i, w_.data()));
    double &held = held_[first_ + i];
    gap += (slack > 0 ? cost * slack : 0.0) - quantum * held * slack;
    const double change = quanta_to_move(slack, quantum * squared_norms_[i], held);
    if (change == 0)
      return;
    held += change;
    total += change * quantum;
    rows_.add(i, static_cast<W>(change * quantum * y), w_.data());
    ++updates;
  }

  // rise: what a quantum adds to the margin.
  double quanta_to_move(double slack, double rise, double held) const {
    if (rise == 0)
      return quanta_ - held; // a row of zeros: all quanta, at no cost
    const double wanted = std::trunc(slack / rise);
    if (wanted == 0)
      return 0;
    const double most = many_ ? wanted : std::copysign(1.0, wanted);
    return std::clamp(most, -held, quanta_ - held);
  }

  Rows rows_;
  const double *signed_cost_, *squared_norms_;
  double quanta_; // B
  bool many_;
  int64_t bucket_, first_ = 0; // the part at hand begins with that row
  RowOrder order_;
  std::vector<W> w_;
  std::vector<double> held_; // I
};

} // namespace bridle
