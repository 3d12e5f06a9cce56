// Dual coordinate descent on rows that do not stay: parts of the data come one after the other,
// each with its slice of alpha; w, the bias and the bounds for shrinking go from part to part
// (block minimisation, Yu, Hsieh, Chang & Lin, "Large linear classification when data cannot fit in
// memory", KDD 2010, with single visits instead of inner solves).
#pragma once

#include "linear/dcd/descent.hpp"
#include "base/parallel.hpp"
#include "base/rng.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
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
  virtual void visit(const AnyRows &rows, const double *signed_cost, const double *squared_norms,
                     double *alpha, uint8_t *resting, Rng &rng, int64_t bucket) = 0;
  // The same for rows that this epoch has visited, and what is seen does not count as its gap. (Not
  // in the first epoch from zero: m/t is for rows that are new.)
  virtual void visit_again(const AnyRows &rows, const double *signed_cost,
                           const double *squared_norms, double *alpha, uint8_t *resting, Rng &rng,
                           int64_t bucket) = 0;
  virtual DcdEpoch end_epoch() = 0;
  virtual void weights(double *out) const = 0;
  virtual double bias() const = 0;
};

// A descent on a matrix of no rows, into which the active rows of each part are put in turn.
template <class Rows, class Loss>
class StreamedDcdOn final : public StreamedDcd, DcdOn<Rows, Loss> {
  using Dcd = DcdOn<Rows, Loss>;
  using Dcd::active_, Dcd::bias_, Dcd::view_, Dcd::w_;
  using typename Dcd::Active;
  using typename Dcd::Pass;

public:
  using W = typename Rows::Value;

  StreamedDcdOn(const Rows &like, const StreamedStart &start, double bias_precision,
                int64_t n_blocks, int n_threads)
      : StreamedDcd(like.n_features + 1), Dcd(none_of(like), nullptr, nullptr, nullptr, start.bias,
                                              bias_precision, n_blocks, n_threads) {
    std::copy(start.w, start.w + like.n_features, w_.begin());
    this->mean_norm_ = start.mean_squared_norm;
    this->mean_cost_ = start.mean_cost;
    this->separable_ = start.separable;
    bias_ = ProximalBias(bias_precision, start.bias);
    bias_.set_balance(start.balance);
    bias_.start(this->sigma(start.n_rows / 10));
    sum_squares();
    this->first_ = start.from_zero;
    this->begin_scaling(start.n_rows);
  }

  void visit(const AnyRows &any, const double *signed_cost, const double *squared_norms,
             double *alpha, uint8_t *resting, Rng &rng, int64_t bucket) override {
    whole_ &= enter(any, signed_cost, squared_norms, alpha, resting);
    visits_ += std::ssize(active_);
    pass_ = pass_.then(visit_active(rng, bucket));
    this->rows_seen_ += view_.n_rows;
    n_active_ += leave(alpha, resting);
  }

  void visit_again(const AnyRows &any, const double *signed_cost, const double *squared_norms,
                   double *alpha, uint8_t *resting, Rng &rng, int64_t bucket) override {
    enter(any, signed_cost, squared_norms, alpha, resting);
    visits_ += std::ssize(active_);
    visit_active(rng, bucket);
    leave(alpha, resting);
  }

  DcdEpoch end_epoch() override {
    sum_squares();
    const double gap = this->first_ ? this->first_gap(pass_) : pass_.gap + bias_.gap();
    bias_.recentre(this->sigma(pass_.inside));
    this->set_bounds(pass_, this->first_ ? 0.5 : 1.0);
    const DcdEpoch done{visits_, n_active_, gap, this->dual(), whole_, true};
    this->first_ = false;
    pass_ = {};
    visits_ = n_active_ = 0;
    whole_ = true;
    return done;
  }

  // In the middle of the first epoch, of the problem that stands for the whole: m/t v.
  void weights(double *out) const override {
    const double scale = present_scale();
    for (int64_t j = 0; j + 1 < n_weights; ++j)
      out[j] = scale * static_cast<double>(w_[j]);
    out[n_weights - 1] = bias_.weight(scale);
  }

  double bias() const override { return bias_.value(present_scale(), 0); }

private:
  double present_scale() const { return this->first_ ? this->scale_after(this->rows_seen_) : 1.0; }

  static Rows none_of(Rows rows) {
    rows.n_rows = 0;
    return rows;
  }

  // Makes the rows that do not rest the active ones; whether those are all.
  bool enter(const AnyRows &any, const double *signed_cost, const double *squared_norms,
             const double *alpha, const uint8_t *resting) {
    const Rows *rows = std::get_if<Rows>(&any);
    if (!rows || rows->n_features + 1 != n_weights)
      throw std::invalid_argument("these rows are of another kind than those before them");
    view_ = Dcd::without_constant(*rows);
    this->rested_.resize(rows->n_rows);
    this->resting_.resize(rows->n_rows);
    active_.clear();
    active_.reserve(rows->n_rows);
    bool all = true;
    for (int64_t i = 0; i < rows->n_rows; ++i) {
      if (signed_cost[i] == 0)
        continue;
      all &= !resting[i];
      if (!resting[i])
        active_.push_back(
            {{static_cast<W>(alpha[i]), static_cast<W>(squared_norms[i] - rows->bias * rows->bias),
              static_cast<W>(signed_cost[i])},
             i,
             i});
    }
    return all;
  }

  // Writes down what the visits found; how many rows do not rest from now on.
  int64_t leave(double *alpha, uint8_t *resting) const {
    int64_t n_active = 0;
    for (const Active &row : active_) {
      const bool rests = row.row < 0;
      resting[row.at] = rests;
      alpha[row.at] = row.alpha;
      n_active += !rests;
    }
    return n_active;
  }

  Pass visit_active(Rng &rng, int64_t bucket) {
    this->shuffle_buckets(rng, bucket);
    this->response_ = static_cast<W>(bias_.response());
    this->active_nnz_ = 0;
    for (const Active &row : active_)
      this->active_nnz_ += view_.row_nnz(row.at);
    return this->visit_range({0, std::ssize(this->order_)});
  }

  // |w|^2 follows from the steps; this removes what rounding has added.
  void sum_squares() { this->squared_weights_ = Dcd::squared_norm(w_); }

  Pass pass_;
  int64_t visits_ = 0, n_active_ = 0;
  bool whole_ = true;
};

// Copies the chosen rows to the end of arrays that hold `used` entries already; offsets receives
// the ends of the rows.
template <class Value, class Column>
void append_rows(const CsrRows<Value, Column> &rows, std::span<const int64_t> chosen, int64_t used,
                 int64_t *offsets, Column *columns, Value *values, int64_t capacity) {
  for (size_t k = 0; k < chosen.size(); ++k) {
    if (chosen[k] < 0 || chosen[k] >= rows.n_rows)
      throw std::invalid_argument("there is no such row to copy");
    const int64_t begin = rows.offsets[chosen[k]], size = rows.row_nnz(chosen[k]);
    if (size > capacity - used)
      throw std::invalid_argument("the copied rows do not fit");
    std::copy_n(rows.columns + begin, size, columns + used);
    std::copy_n(rows.values + begin, size, values + used);
    used += size;
    offsets[k] = used;
  }
}

} // namespace bridle
