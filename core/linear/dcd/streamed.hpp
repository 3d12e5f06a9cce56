// Dual coordinate descent on rows that do not stay: parts of the data come one after the other,
// each with its slice of alpha; w, the bias and the bounds for shrinking go from part to part
// (block minimisation, Yu, Hsieh, Chang & Lin, "Large linear classification when data cannot fit in
// memory", KDD 2010, with single visits instead of inner solves).
#pragma once

#include "linear/dcd/blocks.hpp"
#include "linear/dcd/report.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <variant>

namespace bridle {

// Where the descent starts: w = w(alpha), beta = sum alpha_i y_i, and alpha's part of the dual but
// for 1/2 |w|^2. The means are over all rows, or over enough of them.
struct StreamedStart {
  const double *w; // n_features + 1
  double bias, balance, separable;
  double mean_squared_norm, mean_cost; // without the constant feature
  int64_t n_rows;
  bool from_zero; // alpha = 0
};

class StreamedDcd {
public:
  const int64_t n_weights;

  explicit StreamedDcd(int64_t weights) : n_weights(weights) {}
  virtual ~StreamedDcd() = default;
  // Visits the rows that do not rest, and says which of them rest from now on.
  virtual void visit(const AnyRows &rows, const RowSides &sides, double *alpha, uint8_t *resting,
                     Rng &rng, int64_t bucket) = 0;
  // The same for rows that this epoch has visited, and what is seen does not count as its gap. (Not
  // in the first epoch from zero: m/t is for rows that are new.)
  virtual void visit_again(const AnyRows &rows, const RowSides &sides, double *alpha,
                           uint8_t *resting, Rng &rng, int64_t bucket) = 0;
  virtual DcdEpoch end_epoch() = 0;
  virtual void weights(double *out) const = 0;
  virtual double bias() const = 0;
};

// Rows that are here for a visit: those of the part at hand that do not rest.
template <RowsLike Rows> class PassingRows : public ActiveRows<Rows> {
public:
  using W = typename Rows::Value;
  using ActiveRows<Rows>::view, ActiveRows<Rows>::active;

  explicit PassingRows(const Rows &like) : ActiveRows<Rows>(like) {}

  // Whether the part has no row at rest.
  bool enter(const AnyRows &any, const RowSides &sides, const double *alpha,
             const uint8_t *resting) {
    const Rows *rows = std::get_if<Rows>(&any);
    if (!rows || rows->n_features != view.n_features)
      throw std::invalid_argument("these rows are of another kind than those before them");
    view = without_constant(*rows);
    active.clear();
    active.reserve(rows->n_rows);
    bool all = true;
    for (int64_t i = 0; i < rows->n_rows; ++i) {
      if (sides.signed_cost[i] == 0)
        continue;
      all &= !resting[i];
      if (!resting[i])
        active.push_back({dual_row<W>(sides, i, alpha[i], rows->bias), i, i});
    }
    this->count_nnz();
    return all;
  }

  // Writes down what the visits found; how many rows do not rest from now on.
  int64_t leave(double *alpha, uint8_t *resting) const {
    int64_t n_active = 0;
    for (const ActiveRow<W> &row : active) {
      resting[row.at] = row.shrunk();
      alpha[row.at] = row.alpha;
      n_active += !row.shrunk();
    }
    return n_active;
  }

  void shrink(ActiveRow<W> &row) override { row.row = -1; }
};

template <RowsLike Rows> class StreamedDcdOn final : public StreamedDcd {
public:
  using W = typename Rows::Value;

  StreamedDcdOn(const Rows &like, StepsOf<Rows> loss, const StreamedStart &start,
                double bias_precision, int64_t n_blocks, int n_threads)
      : StreamedDcd(like.n_features + 1), rows_(like), state_{.w = LargeVector<W>(n_weights),
                                                              .bias = {bias_precision, start.bias},
                                                              .mean_norm = start.mean_squared_norm,
                                                              .mean_cost = start.mean_cost,
                                                              .separable = start.separable},
        loss_(std::move(loss)), blocks_(n_blocks, n_threads) {
    std::copy(start.w, start.w + like.n_features, state_.w.begin());
    state_.sum_squares();
    state_.bias.set_balance(start.balance);
    state_.bias.start(state_.sigma(start.n_rows / 10));
    if (start.from_zero)
      state_.first = FirstEpoch::of(start.n_rows, start.mean_cost, start.mean_squared_norm);
  }

  void visit(const AnyRows &any, const RowSides &sides, double *alpha, uint8_t *resting, Rng &rng,
             int64_t bucket) override {
    whole_ &= rows_.enter(any, sides, alpha, resting);
    pass_ = pass_.then(visit_active(rng, bucket));
    if (state_.first)
      state_.first->rows_seen += rows_.view.n_rows;
    n_active_ += rows_.leave(alpha, resting);
  }

  void visit_again(const AnyRows &any, const RowSides &sides, double *alpha, uint8_t *resting,
                   Rng &rng, int64_t bucket) override {
    rows_.enter(any, sides, alpha, resting);
    visit_active(rng, bucket);
    rows_.leave(alpha, resting);
  }

  DcdEpoch end_epoch() override {
    state_.sum_squares();
    const double gap = state_.first ? state_.first_gap(pass_) : pass_.gap + state_.bias.gap();
    state_.end_epoch(pass_, state_.first ? 0.5 : 1.0);
    const DcdEpoch done{visits_, n_active_, gap, state_.dual(), whole_, true};
    state_.first.reset();
    pass_ = {};
    visits_ = n_active_ = 0;
    whole_ = true;
    return done;
  }

  // In the middle of the first epoch, of the problem that stands for the whole: m/t v.
  void weights(double *out) const override {
    const double scale = present_scale();
    for (int64_t j = 0; j + 1 < n_weights; ++j)
      out[j] = scale * static_cast<double>(state_.w[j]);
    out[n_weights - 1] = state_.bias.weight(scale);
  }

  double bias() const override { return state_.bias.value(present_scale(), 0); }

private:
  double present_scale() const {
    return state_.first ? state_.first->scale_after(state_.first->rows_seen) : 1.0;
  }

  DcdPass<W> visit_active(Rng &rng, int64_t bucket) {
    visits_ += rows_.size();
    order_.shuffle(rng, rows_.size(), bucket);
    return blocks_.visit(*loss_, rows_, order_, {0, order_.size()}, state_);
  }

  PassingRows<Rows> rows_;
  DcdState<W> state_;
  StepsOf<Rows> loss_;
  BlockVisits<Rows> blocks_;
  Buckets order_;
  // The epoch at hand.
  DcdPass<W> pass_;
  int64_t visits_ = 0, n_active_ = 0;
  bool whole_ = true;
};

} // namespace bridle
