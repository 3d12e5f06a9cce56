// Dual coordinate descent on rows that do not stay: parts of the data come one after the other,
// each with its slice of alpha; w, the bias and the bounds for shrinking go from part to part
// (block minimisation, Yu, Hsieh, Chang & Lin, "Large linear classification when data cannot fit in
// memory", KDD 2010, with single visits instead of inner solves).
#pragma once

#include "dcd.hpp"
#include "parallel.hpp"
#include "rng.hpp"
#include "rows.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <variant>

namespace bridle {

struct StreamedEpoch : DcdEpoch {
  int64_t active_nnz; // stored entries of the rows left
};

// Where the descent starts: w = w(alpha), beta = sum alpha_i y_i, and alpha's part of the dual but
// for 1/2 |w|^2. The means are over all rows, or over enough of them.
struct StreamedStart {
  const double *w; // n_features + 1
  double bias, balance, separable;
  double mean_squared_norm, mean_cost; // without the constant feature
  int64_t n_rows;
};

class StreamedDcd {
public:
  const int64_t n_weights;

  explicit StreamedDcd(int64_t weights) : n_weights(weights) {}
  virtual ~StreamedDcd() = default;
  // Visits the rows that do not rest, and says which of them rest from now on.
  virtual void visit(const AnyRows &rows, const double *signed_cost, const double *squared_norms,
                     double *alpha, uint8_t *resting, Rng &rng, int64_t bucket) = 0;
  virtual StreamedEpoch end_epoch() = 0;
  // The caller has woken all rows: none is to rest before an epoch has seen them all.
  virtual void forget_bounds() = 0;
  virtual void weights(double *out) const = 0;
  virtual double bias() const = 0;
};

// A descent on a matrix of no rows, into which the active rows of each part are put in turn.
template <class Rows, class Loss>
class StreamedDcdOn final : public StreamedDcd, DcdOn<Rows, Loss> {
  using Dcd = DcdOn<Rows, Loss>;
  using Dcd::active_, Dcd::bias_, Dcd::order_, Dcd::view_, Dcd::w_;
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
    this->first_ = false; // it may be stopped within the first epoch, whose w is meant for its end
  }

  void visit(const AnyRows &any, const double *signed_cost, const double *squared_norms,
             double *alpha, uint8_t *resting, Rng &rng, int64_t bucket) override {
    const Rows *rows = std::get_if<Rows>(&any);
    if (!rows || rows->n_features + 1 != n_weights)
      throw std::invalid_argument("these rows are of another kind than those before them");
    view_ = Dcd::without_constant(*rows);
    this->rested_.resize(rows->n_rows);
    active_.clear();
    for (int64_t i = 0; i < rows->n_rows; ++i) {
      if (signed_cost[i] == 0)
        continue;
      whole_ &= !resting[i];
      if (!resting[i])
        active_.push_back(
            {{static_cast<W>(alpha[i]), static_cast<W>(squared_norms[i] - rows->bias * rows->bias),
              static_cast<W>(signed_cost[i])},
             i,
             i});
    }
    visits_ += std::ssize(active_);
    pass_ = pass_.then(visit_active(rng, bucket));
    for (const Active &row : active_) {
      const bool rests = row.row < 0;
      resting[row.at] = rests;
      alpha[row.at] = row.alpha;
      n_active_ += !rests;
      active_nnz_ += rests ? 0 : view_.row_nnz(row.at);
    }
  }

  StreamedEpoch end_epoch() override {
    const double gap = pass_.gap + bias_.gap();
    bias_.recentre(this->sigma(pass_.inside));
    this->set_bounds(pass_, 1.0);
    sum_squares();
    const StreamedEpoch done{{visits_, n_active_, gap, this->dual(), whole_}, active_nnz_};
    pass_ = {};
    visits_ = n_active_ = active_nnz_ = 0;
    whole_ = true;
    return done;
  }

  void forget_bounds() override { this->shrink_beyond_ = Dcd::infinity; }

  void weights(double *out) const override { Dcd::weights(out); }
  double bias() const override { return bias_.value(); }

private:
  static Rows none_of(Rows rows) {
    rows.n_rows = 0;
    return rows;
  }

  // Every active row once, in buckets, in random order.
  Pass visit_active(Rng &rng, int64_t bucket) {
    order_.resize((std::ssize(active_) + bucket - 1) / bucket);
    std::iota(order_.begin(), order_.end(), int64_t{0});
    rng.shuffle(std::span(order_));
    this->response_ = static_cast<W>(bias_.response());
    Pass pass;
    if (const int64_t n_rounds = this->rounds(); n_rounds < 2) {
      this->caution_ = 1;
      pass = this->visit_buckets({0, std::ssize(order_)}, bucket, w_.data(), nullptr);
      this->take(pass);
    } else {
      for (int64_t round = 0; round < n_rounds; ++round)
        pass = pass.then(
            this->visit_in_blocks(block_range(std::ssize(order_), n_rounds, round), bucket));
    }
    return pass;
  }

  // |w|^2 follows from the steps; this removes what rounding has added.
  void sum_squares() { this->squared_weights_ = Dcd::squared_norm(w_); }

  Pass pass_;
  int64_t visits_ = 0, n_active_ = 0, active_nnz_ = 0;
  bool whole_ = true;
};

// Copies the rows that are not left out to the end of arrays that hold `used` entries already;
// offsets receives the ends of the rows. Returns the number of entries then used.
template <class Value, class Column>
int64_t append_rows(const CsrRows<Value, Column> &rows, const uint8_t *left_out, int64_t used,
                    int64_t *offsets, int64_t n_offsets, Column *columns, Value *values,
                    int64_t capacity) {
  int64_t n = 0;
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    if (left_out[i])
      continue;
    const int64_t begin = rows.offsets[i], size = rows.row_nnz(i);
    if (n == n_offsets || size > capacity - used)
      throw std::invalid_argument("the copied rows do not fit");
    std::copy_n(rows.columns + begin, size, columns + used);
    std::copy_n(rows.values + begin, size, values + used);
    used += size;
    offsets[n++] = used;
  }
  if (n != n_offsets)
    throw std::invalid_argument("fewer rows were copied than there are offsets");
  return used;
}

} // namespace bridle
