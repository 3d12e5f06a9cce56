// Dual coordinate descent (Hsieh, Chang, Lin, Keerthi & Sundararajan, ICML 2008, algorithm 3) for
//
//   min_alpha  1/2 |w(alpha)|^2 - sum dual(alpha_i, C_i) - sum t_i alpha_i,  w(alpha) = sum alpha_i
//   z_i,
//
// within the boxes of the loss (see losses.hpp); z_i = y_i x_i, and t_i a target of its own for
// each row of a regression (Ho & Lin, "Large-scale linear support vector regression", JMLR 2012),
// else 0.
//
// state.hpp: w, the bias and D, and the first epoch    active.hpp: rows in play and at rest
// buckets.hpp: the order of an epoch                   visit.hpp: a row's step, by its loss
// rounds.hpp: visits by many threads                   blocks.hpp: by two, of rows much alike
// part.hpp, streamed.hpp: rows elsewhere
#pragma once

#include "linear/dcd/blocks.hpp"
#include "linear/dcd/report.hpp"
#include "linear/dcd/rounds.hpp"
#include "linear/dcd/sample.hpp"
#include "rows/passes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace bridle {

class DualCoordinateDescent {
public:
  const int64_t n_rows, n_weights;

  DualCoordinateDescent(int64_t rows, int64_t weights) : n_rows(rows), n_weights(weights) {}
  virtual ~DualCoordinateDescent() = default;
  // Visits the next `share` of an epoch, all of it if that is the first one from zero.
  virtual DcdEpoch visit(Rng &rng, int64_t bucket, double share) = 0;
  // Of the active rows, and of the others.
  virtual DcdSample sample(Rng &rng, int64_t n) const = 0;
  virtual DcdSample sample_resting(Rng &rng, int64_t n) const = 0;
  virtual void unshrink() = 0;
  virtual int64_t n_active() const = 0;
  virtual void alpha(double *out) const = 0;
  virtual void weights(double *out) const = 0;
  virtual double bias() const = 0;
};

// Where a descent starts, and how it is run.
struct DcdSettings {
  double start_bias;
  double bias_precision; // of the bias, see ProximalBias
  int64_t n_blocks;      // 1: one row at a time
  int n_threads;
  bool columns_in_order = false; // of each row
  double pull = 0;               // what a free bias wants sum alpha_i y_i to be
};

template <RowsLike Rows> class DcdOn final : public DualCoordinateDescent {
public:
  // The weights have the precision of the data: float32 weights halve the cache they need, and an
  // error e in w costs only |e|^2 / 2 of the gap.
  using W = typename Rows::Value;

  DcdOn(const Rows &rows, StepsOf<Rows> loss, const RowSides &sides, const double *start_alpha,
        const DcdSettings &settings)
      : DualCoordinateDescent(rows.n_rows, rows.n_features + 1), loss_(std::move(loss)),
        rows_(rows, sides, start_alpha, settings.n_threads),
        state_{.w = LargeVector<W>(rows.n_features + 1),
               .bias = {settings.bias_precision, settings.start_bias},
               .mean_norm = 0,
               .mean_cost = 0},
        blocks_(settings.n_blocks, settings.n_threads),
        rounds_(*loss_, without_constant(rows), settings.columns_in_order && settings.n_blocks > 1,
                settings.n_threads),
        n_threads_(settings.n_threads) {
    const bool from_zero = look_at(rows, sides, start_alpha);
    if (from_zero)
      state_.first = FirstEpoch::of(rows_.size(), state_.mean_cost, state_.mean_norm);
    else
      start_from(start_alpha, settings.n_threads);
    state_.bias.add(-settings.pull);
    state_.bias.start(state_.sigma(rows_.size() / 10));
  }

  // Goes on with rows and a state that belong together, by one thread.
  DcdOn(ResidentRows<Rows> rows, StepsOf<Rows> loss, DcdState<W> state)
      : DualCoordinateDescent(rows.n_rows(), rows.matrix().n_features + 1), loss_(std::move(loss)),
        rows_(std::move(rows)), state_(std::move(state)), blocks_(1, 1), rounds_(1), n_threads_(1) {
  }

  DcdEpoch visit(Rng &rng, int64_t bucket, double share) override {
    if (order_.between_epochs()) {
      order_.shuffle(rng, rows_.size(), bucket);
      so_far_ = {};
      whole_ = rows_.whole();
    }
    if (state_.first)
      return visit_first();
    const Range buckets = order_.next(share);
    so_far_ = so_far_.then(visit_rows(buckets));
    DcdEpoch done{order_.rows_of(buckets), 0, so_far_.gap, 0, whole_, order_.between_epochs()};
    if (done.finished) {
      done.gap += state_.bias.gap();
      end_epoch(so_far_);
    }
    done.active = rows_.size();
    done.dual = state_.dual();
    return done;
  }

  DcdSample sample(Rng &rng, int64_t n) const override {
    DcdSample found = sample_gap(rng, rows_.size(), n, n_threads_, [&](int64_t j) {
      return gap_of(rows_.active[j], rows_.view, rows_.active[j].at);
    });
    found.gap += state_.bias.gap();
    return found;
  }

  DcdSample sample_resting(Rng &rng, int64_t n) const override {
    return sample_gap(rng, n_rows, n, n_threads_, [&](int64_t i) {
      return rows_.resting(i) ? gap_of(rows_.all()[i], rows_.matrix(), i) : 0.0;
    });
  }

  void unshrink() override {
    rows_.unshrink();
    order_.restart();
    state_.sum_squares();
  }

  int64_t n_active() const override { return rows_.size(); }
  void alpha(double *out) const override { rows_.alpha(out); }
  void weights(double *out) const override {
    std::copy(state_.w.begin(), state_.w.end(), out);
    out[n_weights - 1] = state_.bias.weight();
  }
  double bias() const override { return state_.bias.value(); }

private:
  DcdPass<W> visit_rows(Range buckets) {
    return rounds_.suit(rows_, state_) ? rounds_.visit(*loss_, rows_, order_, buckets, state_)
                                       : blocks_.visit(*loss_, rows_, order_, buckets, state_);
  }

  // The means of what the rows have; whether alpha is zero everywhere.
  bool look_at(const Rows &rows, const RowSides &sides, const double *alpha) {
    constexpr int64_t grain = 16384;
    struct Sums {
      double norm = 0, cost = 0;
      bool zero = true;
    };
    std::vector<Sums> parts((n_rows + grain - 1) / grain);
    for_ranges(n_rows, grain, n_threads_, [&](Range part) {
      Sums sums;
      for (int64_t i = part.begin; i < part.end; ++i) {
        sums.norm += sides.squared_norms[i] - rows.bias * rows.bias;
        sums.cost += sides.cost(i);
        sums.zero &= alpha[i] == 0;
      }
      parts[part.begin / grain] = sums;
    });
    bool zero = true;
    for (const Sums &sums : parts) {
      state_.mean_norm += sums.norm / static_cast<double>(n_rows);
      state_.mean_cost += sums.cost / static_cast<double>(n_rows);
      zero &= sums.zero;
    }
    return zero;
  }

  void start_from(const double *alpha, int n_threads) {
    std::vector<double> coefficients(n_rows), w(n_weights);
    double balance = 0;
    for (int64_t i = 0; i < n_rows; ++i) {
      const DualRow<W> &row = rows_.all()[i];
      coefficients[i] = alpha[i] * static_cast<double>(row.label());
      balance += coefficients[i];
      if (row.signed_cost != 0)
        state_.separable += loss_->separable(row.alpha, row);
    }
    state_.bias.set_balance(balance);
    combine(rows_.matrix(), coefficients.data(), w.data(), n_threads);
    std::copy(w.begin(), w.end(), state_.w.begin());
    state_.sum_squares();
  }

  // The rows that came first knew least of w: an eighth of the rows is visited again at once.
  DcdEpoch visit_first() {
    const Range all = order_.next(1.0), again{0, (all.end + 7) / 8};
    const int64_t visits = order_.rows_of(all) + order_.rows_of(again);
    const auto pass = visit_rows(all);
    state_.sum_squares();
    const double gap = state_.first_gap(pass);
    state_.first.reset();
    const auto second = visit_rows(again);
    end_epoch({.gradients = second.gradients, .moved = second.moved, .inside = pass.inside});
    return {visits, rows_.size(), gap, state_.dual(), whole_, true};
  }

  void end_epoch(const DcdPass<W> &pass) {
    state_.end_epoch(pass);
    rows_.drop_shrunk();
  }

  double gap_of(const DualRow<W> &row, const Rows &from, int64_t at) const {
    const W score = from.dot(at, state_.w.data()) + static_cast<W>(state_.bias.value());
    return loss_->gap(row, score);
  }

  StepsOf<Rows> loss_;
  ResidentRows<Rows> rows_;
  DcdState<W> state_;
  BlockVisits<Rows> blocks_;
  RoundVisits<Rows> rounds_;
  int n_threads_;
  // The epoch at hand.
  Buckets order_;
  DcdPass<W> so_far_;
  bool whole_ = true;
};

} // namespace bridle
