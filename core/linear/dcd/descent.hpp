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
//
// The first epoch from zero is one of stochastic gradients in the dual. Of t rows seen out of m,
// the problem of those alone with costs m/t C_i stands for the whole, and its weights are m/t v,
// where v = sum alpha_i z_i: each new row takes the step of that problem, with its costs, divided
// by m/t. So alpha_i is in its box all the time, and v = w(alpha) at the end. Without this the
// first rows all go to C_i, since w = 0 when they are seen, and it takes two more epochs to undo
// that. The rows that came first knew least of w: an eighth of the rows is visited again at once.
//
// Shrinking: a row at a bound is left out if its gradient points out of the box by more than the
// root mean square of what moved in the last epoch. (The paper waits until that is more than the
// largest, of all rows, which may be one outlier. Wrong guesses cost little here: every row is
// looked at again when the others are ten times more accurate, and by each certificate.)
//
// Threads: the rows of an epoch are visited by blocks, at the same time, each with a copy of w, and
// what they found is summed many times an epoch (CoCoA+, Ma, Smith, Jaggi et al., ICML 2015, with
// an exact line search). The blocks are a parameter; the result does not depend on the threads.
#pragma once

#include "losses.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "rows/passes.hpp"
#include "linear/proximal_bias.hpp"
#include "base/rng.hpp"
#include "rows/views.hpp"

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
  double gap;     // an estimate of P - D: the rows' parts, each taken when it was visited
  double dual;    // D(alpha) after the epoch, from the running w
  bool whole;     // the epoch visits every row
  bool finished;  // else all this is of the part of the epoch that is over
};

// The gap as some rows, drawn at random, show it: P - D = sum_i gap_i where w = w(alpha).
struct DcdSample {
  double gap, error; // and its standard error
};

// One of many parts of a problem, the other rows being elsewhere: what a visit to some of its rows
// saw, ...
struct DcdShare {
  int64_t visits, inside; // rows looked at; those strictly between their bounds
  double gap;             // sum of the rows' parts of P - D, when visited
  double balance;         // change of sum alpha y
  bool finished, whole;   // this ends an epoch; which visited every row of the part
};

// ... and how far its rows are from where they were at the last `keep`, in the parts of the dual.
struct DcdMove {
  double separable, balance; // changes of sum alpha [- 1/2 sum D_ii alpha^2], of sum alpha y
  double curvature;          // sum D_ii d_alpha_i^2
};

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

  // One of many parts of a problem (CoCoA+): visits the next `share` of an epoch, from the weights
  // and the bias of all parts together. To `step` is added sum d_alpha_i z_i. The rows' steps are
  // kept, all or in part, by `keep`.
  virtual DcdShare visit_share(Rng &rng, int64_t bucket, double share, const double *w, double bias,
                               double response, double *step) = 0;
  // Since the other parts are stepping, too: from now on each step counts so many times, for each
  // feature and, last, for the bias.
  virtual void set_caution(const double *caution) = 0;
  virtual DcdMove moved() = 0;
  // Goes this part of the way from where the rows were at the last call.
  virtual void keep(double part) = 0;

  virtual void alpha(double *out) const = 0;
  virtual void weights(double *out) const = 0;
  virtual double bias() const = 0;
};

template <class Rows, class Loss> class DcdOn : public DualCoordinateDescent {
public:
  // The weights have the precision of the data: float32 weights halve the cache they need, and an
  // error e in w costs only |e|^2 / 2 of the gap.
  using W = typename Rows::Value;

  // signed_cost: y_i C_i. squared_norms: with the constant feature, where the bias has one.
  DcdOn(const Rows &rows, const double *signed_cost, const double *squared_norms,
        const double *start_alpha, double start_bias, double bias_precision, int64_t n_blocks,
        int n_threads)
      : DualCoordinateDescent(rows.n_rows, rows.n_features + 1), rows_(without_constant(rows)),
        bias_(bias_precision, start_bias), w_(rows.n_features + 1), rested_(rows.n_rows),
        n_blocks_(n_blocks), n_threads_(n_threads) {
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

  DcdEpoch visit(Rng &rng, int64_t bucket, double share) override {
    if (next_bucket_ == 0)
      begin_epoch(rng, bucket);
    response_ = static_cast<W>(bias_.response());
    if (first_)
      return visit_first();
    const Range range = next_range(share);
    so_far_ = so_far_.then(visit_range(range));
    DcdEpoch done{rows_of(range), 0, so_far_.gap, 0, whole_, next_bucket_ == 0};
    if (done.finished) {
      done.gap += bias_.gap();
      end_epoch(so_far_);
    }
    done.active = std::ssize(active_);
    done.dual = dual();
    return done;
  }

  DcdSample sample(Rng &rng, int64_t n) const override {
    DcdSample found = draw(rng, std::ssize(active_), n,
                           [&](int64_t j) { return gap_of(active_[j], view_, active_[j].at); });
    found.gap += bias_.gap();
    return found;
  }

  DcdSample sample_resting(Rng &rng, int64_t n) const override {
    return draw(rng, rows_.n_rows, n,
                [&](int64_t i) { return resting_[i] ? gap_of(rested_[i], rows_, i) : 0.0; });
  }

  DcdShare visit_share(Rng &rng, int64_t bucket, double share, const double *w, double bias,
                       double response, double *step) override {
    remember();
    if (next_bucket_ == 0) {
      // Few rows: no more of them at a time than were asked for.
      const auto few = std::ceil(share * static_cast<double>(active_.size()));
      begin_epoch(rng, std::clamp<int64_t>(static_cast<int64_t>(few), 1, bucket));
    }
    const Range range = next_range(share);

    std::copy(w, w + w_.size(), w_.begin());
    w_.back() = 0; // of the constant feature, which the bias stands for
    start_ = w_;
    response_ = static_cast<W>(response) * cautions_.back();
    const Pass pass = visit_buckets(range, w_.data(), nullptr, bias);
    for (size_t j = 0; j < w_.size(); ++j)
      step[j] += (w_[j] - start_[j]) / cautions_[j];

    so_far_ = so_far_.then(pass);
    const int64_t visits = rows_of(range);
    const bool finished = next_bucket_ == 0;
    if (finished) {
      drop_shrunk();
      set_bounds(so_far_);
    }
    return {visits, pass.inside, pass.gap, pass.balance, finished, whole_};
  }

  void set_caution(const double *caution) override {
    rest();
    cautions_.assign(caution, caution + w_.size());
    for (Record &row : rested_)
      row.squared_norm = unknown;
    for (Active &row : active_)
      row.squared_norm = unknown;
  }

  DcdMove moved() override {
    rest();
    DcdMove sum{};
    for (int64_t i = 0; i < std::ssize(before_); ++i) {
      const auto [alpha, squared_norm, signed_cost] = rested_[i];
      if (alpha == before_[i])
        continue;
      const W cost = std::abs(signed_cost);
      const double delta = static_cast<double>(alpha) - before_[i];
      sum.separable += separable(alpha, cost) - separable(before_[i], cost);
      sum.balance += std::copysign(1.0, signed_cost) * delta;
      sum.curvature += static_cast<double>(Loss::curvature(cost)) * delta * delta;
    }
    return sum;
  }

  void keep(double part) override {
    if (before_.empty())
      return;
    rest();
    const auto t = static_cast<W>(part);
    for (int64_t i = 0; i < rows_.n_rows; ++i) {
      if (t != 1)
        rested_[i].alpha = before_[i] + t * (rested_[i].alpha - before_[i]);
      before_[i] = rested_[i].alpha;
    }
    for (Active &row : active_)
      if (row.row >= 0)
        row.alpha = rested_[row.row].alpha;
  }

  void unshrink() override {
    rest();
    next_bucket_ = 0;
    active_.clear();
    active_.reserve(rows_.n_rows);
    for (int64_t i = 0; i < rows_.n_rows; ++i)
      if (rested_[i].signed_cost != 0)
        active_.push_back({rested_[i], i, i});
    n_useful_ = static_cast<int64_t>(active_.size());
    active_nnz_ = rows_.nnz();
    resting_.assign(rows_.n_rows, 0);
    view_ = rows_;
    compact_ = {};
    squared_weights_ = squared_norm(w_);
  }

  int64_t n_active() const override { return std::ssize(active_); }

  void alpha(double *out) const override {
    for (int64_t i = 0; i < rows_.n_rows; ++i)
      out[i] = rested_[i].alpha;
    for (const Active &row : active_)
      if (row.row >= 0) // in the middle of an epoch, some may have been shrunk
        out[row.row] = row.alpha;
  }

  void weights(double *out) const override {
    std::copy(w_.begin(), w_.end(), out);
    out[rows_.n_features] = bias_.weight();
  }

  double bias() const override { return bias_.value(); }

protected: // for StreamedDcdOn
  static constexpr W infinity = std::numeric_limits<W>::infinity();
  static constexpr W unknown = -1; // a squared norm that is computed when it is needed
  static constexpr int64_t rows_ahead = 4;
  // Exchanges in an epoch; non-zeros that a block reads between two, for each weight.
  static constexpr double least_rounds = 16, least_per_weight = 4;
  // Less than this is not worth a thread.
  static constexpr double least_work = 1 << 13;

  struct Record {
    W alpha;
    W squared_norm;
    W signed_cost; // y_i C_i: the sign is the label
  };

  struct Active : Record {
    int64_t row; // in the matrix; -1 once it was shrunk in this pass
    int64_t at;  // in the view: the matrix, or the compact copy
  };

  struct Undo {
    int64_t index; // in active_
    W alpha;       // before the step
  };

  struct Pass {
    W bias = 0, scale = 1;             // b and m/t as the present row sees them
    double gap = 0, balance = 0;       // the gap seen; the changes of the dual's parts:
    double separable = 0, squared = 0; // sum alpha y, sum alpha [- ...], |w|^2
    double curved = 0;                 // sum D_ii d_alpha_i^2
    double gradients = 0;              // sum of squares of the projected gradients
    int64_t moved = 0;                 // how many of those are not zero
    int64_t inside = 0;                // rows strictly between their bounds

    double motion() const { return std::sqrt(gradients / static_cast<double>(moved)); }

    Pass then(const Pass &next) const {
      return {next.bias,
              next.scale,
              gap + next.gap,
              balance + next.balance,
              separable + next.separable,
              squared + next.squared,
              curved + next.curved,
              gradients + next.gradients,
              moved + next.moved,
              inside + next.inside};
    }
  };

  static Rows without_constant(Rows rows) {
    rows.bias = 0;
    return rows;
  }

  double sigma(int64_t n_inside) const { return proximal_sigma(mean_norm_, mean_cost_, n_inside); }

  void start_weights(const double *alpha, int n_threads) {
    first_ = std::all_of(alpha, alpha + rows_.n_rows, [](double a) { return a == 0; });
    if (first_)
      return;
    std::vector<double> coefficients(rows_.n_rows), w(w_.size());
    double balance = 0;
    for (int64_t i = 0; i < rows_.n_rows; ++i) {
      const W signed_cost = rested_[i].signed_cost;
      coefficients[i] = std::copysign(alpha[i], signed_cost);
      balance += coefficients[i];
      if (signed_cost != 0)
        separable_ += separable(rested_[i].alpha, std::abs(signed_cost));
    }
    bias_.set_balance(balance);
    combine(rows_, coefficients.data(), w.data(), nullptr, nullptr, n_threads);
    std::copy(w.begin(), w.end(), w_.begin());
  }

  // A row's part of the dual but for 1/2 |w|^2.
  static double separable(W alpha, W cost) {
    return Loss::target * static_cast<double>(alpha) -
           0.5 * static_cast<double>(Loss::curvature(cost)) * alpha * alpha;
  }

  // Every active row once, in buckets, in random order.
  void shuffle_buckets(Rng &rng, int64_t bucket) {
    bucket_ = bucket;
    order_.resize((std::ssize(active_) + bucket - 1) / bucket);
    std::iota(order_.begin(), order_.end(), int64_t{0});
    rng.shuffle(std::span(order_));
  }

  void begin_epoch(Rng &rng, int64_t bucket) {
    shuffle_buckets(rng, bucket);
    begin_scaling(std::ssize(active_));
    so_far_ = {};
    whole_ = std::ssize(active_) == n_useful_;
  }

  // What the first rows did knew least of w: an eighth of the rows is visited again.
  DcdEpoch visit_first() {
    const Range all = next_range(1.0), again{0, (all.end + 7) / 8};
    const Pass pass = visit_range(all);
    squared_weights_ = squared_norm(w_);
    const double gap = first_gap(pass);
    first_ = false;
    const Pass second = visit_range(again);
    end_epoch({.gradients = second.gradients, .moved = second.moved, .inside = pass.inside});
    const auto n_active = std::ssize(active_);
    return {n_active + rows_of(again), n_active, gap, dual(), whole_, true};
  }

  void end_epoch(const Pass &pass) {
    bias_.recentre(sigma(pass.inside));
    drop_shrunk();
    set_bounds(pass);
  }

  // The next buckets of the epoch at hand, which is over if next_bucket_ is then 0.
  Range next_range(double share) {
    const auto n = std::ssize(order_);
    const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(n)));
    const Range range{next_bucket_, std::min(n, next_bucket_ + wanted)};
    next_bucket_ = range.end == n ? 0 : range.end;
    return range;
  }

  int64_t rows_of(Range buckets) const {
    int64_t rows = 0;
    for (int64_t b = buckets.begin; b < buckets.end; ++b)
      rows += std::min(bucket_, std::ssize(active_) - order_[b] * bucket_);
    return rows;
  }

  // Brings rested_ up to date.
  void rest() {
    for (const Active &row : active_)
      if (row.row >= 0) // in the middle of an epoch, some may have been shrunk
        rested_[row.row].alpha = row.alpha;
  }

  // Where the rows are before the first visit of a part.
  void remember() {
    if (!before_.empty())
      return;
    first_ = false; // its w is meant for the end of an epoch of all rows
    if (cautions_.empty())
      cautions_.assign(w_.size(), W(1));
    rest();
    before_.resize(rows_.n_rows);
    for (int64_t i = 0; i < rows_.n_rows; ++i)
      before_[i] = rested_[i].alpha;
  }

  // The changes of a pass become part of the state.
  void take(const Pass &pass) {
    bias_.add(pass.balance);
    separable_ += pass.separable;
    squared_weights_ += pass.squared;
  }

  // How often the blocks exchange what they find in these buckets. What rows can do to w before the
  // others know of it is their number times C |x|^2: about 128 of that does no harm, if it is also
  // a small part of all rows (measured on texts). To exchange more often than every so many
  // non-zeros would cost more than it saves.
  int64_t rounds(Range buckets) const {
    if (n_blocks_ == 1 || order_.empty() || active_nnz_ == 0)
      return 1;
    const double all = static_cast<double>(active_nnz_), weights = static_cast<double>(w_.size());
    const double share = all / static_cast<double>(n_blocks_);
    const double harmless = 128 / (mean_cost_ * mean_norm_) * all / std::ssize(active_);
    const double least = std::max(least_work, least_per_weight * weights);
    const double work = std::max(least, std::min(harmless, share / least_rounds));
    if (share < least_rounds * work)
      return 1;
    const double part = static_cast<double>(buckets.end - buckets.begin) / std::ssize(order_);
    return static_cast<int64_t>(part * share / work);
  }

  Pass visit_range(Range buckets) {
    if (const int64_t n_rounds = rounds(buckets); n_rounds > 1)
      return visit_in_blocks(buckets, n_rounds);
    caution_ = 1;
    const Pass pass = visit_buckets(buckets, w_.data(), nullptr, bias_.value());
    take(pass);
    return pass;
  }

  // Blocks of rows at the same time, each with a copy of w; then all their steps together, as far
  // as the dual rises: D(eta) = D + eta g - eta^2/2 h is exact, and eta = min(1, g/h). The blocks
  // do not depend on the number of threads, nor does the result.
  Pass visit_in_blocks(Range buckets, int64_t n_rounds) {
    std::vector<Pass> passes(n_blocks_);
    std::vector<StepLengths> lengths(n_blocks_);
    undo_.resize(n_blocks_);
    local_.resize(n_blocks_);
    const int64_t n_buckets = buckets.end - buckets.begin;
    Pass sum;
    auto work = [&](int64_t round, int64_t k) {
      local_[k] = w_;
      undo_[k].clear();
      const Range all = block_range(n_buckets, n_rounds, round);
      const Range mine = block_range(all.end - all.begin, n_blocks_, k);
      const int64_t begin = buckets.begin + all.begin;
      // Of the rows of this round, a block knows those that it has visited itself.
      passes[k] = visit_buckets({begin + mine.begin, begin + mine.end}, local_[k].data(), &undo_[k],
                                bias_.value(), mine.begin);
    };
    auto exchange = [&](int64_t part) { lengths[part] = sum_steps(part); };
    auto conclude = [&] { sum = sum.then(take_all(passes, lengths)); };
    in_rounds(n_rounds, n_blocks_, n_threads_, work, exchange, conclude);
    return sum;
  }

  struct StepLengths {
    double length;  // |sum of dw|^2
    double squared; // change of |w|^2
  };

  // One of n_blocks_ parts of local_[0] <- w + sum_k dw_k
  StepLengths sum_steps(int64_t part) {
    constexpr int64_t chunk = 512;
    W steps[chunk];
    const auto [begin, end] = block_range(std::ssize(w_), n_blocks_, part);
    double length = 0, squared = 0;
    for (int64_t at = begin; at < end; at += chunk) {
      const int64_t n = std::min(chunk, end - at);
      const W *w = w_.data() + at;
      std::fill_n(steps, n, W(0));
      for (const std::vector<W> &own : local_)
        for (int64_t j = 0; j < n; ++j)
          steps[j] += own[at + j] - w[j];
      W *out = local_[0].data() + at;
#pragma omp simd reduction(+ : length, squared)
      for (int64_t j = 0; j < n; ++j) {
        const W step = steps[j] / caution_;
        out[j] = w[j] + step;
        length += static_cast<double>(step) * static_cast<double>(step);
        squared +=
            static_cast<double>(step) * (2 * static_cast<double>(w[j]) + static_cast<double>(step));
      }
    }
    return {length, squared};
  }

  Pass take_all(const std::vector<Pass> &passes, const std::vector<StepLengths> &lengths) {
    Pass all;
    for (const Pass &pass : passes)
      all = all.then(pass);
    double length = 0;
    all.squared = 0;
    for (const StepLengths &part : lengths) {
      length += part.length;
      all.squared += part.squared;
    }
    const double h = length + all.curved + bias_.response() * all.balance * all.balance;
    const double rise = all.separable - 0.5 * all.squared - bias_.value() * all.balance -
                        0.5 * bias_.response() * all.balance * all.balance;
    // The steps of the first epoch are for a dual with other costs.
    const double eta = h > 0 && !first_ ? std::clamp((rise + 0.5 * h) / h, 0.0, 1.0) : 1.0;
    if (eta < 1)
      shorten(all, eta, length);
    if (h > 0 && !first_)
      adapt((rise + 0.5 * h) / h);
    w_.swap(local_[0]);
    take(all);
    return all;
  }

  // Where the line search wanted to go less far than all the way, rows of different blocks stand in
  // each other's way: each is made to step as if its own step counted more.
  void adapt(double eta) {
    const W factor = eta < 0.9 ? W(1.2) : eta > 1.2 ? W(1) / W(1.05) : W(1);
    caution_ = std::clamp(caution_ * factor, W(1), static_cast<W>(n_blocks_));
  }

  // Goes only eta of the way.
  void shorten(Pass &pass, double eta, double length) {
    for (const auto &steps : undo_)
      for (const auto &[index, before] : steps) {
        Active &row = active_[index];
        row.alpha = before + static_cast<W>(eta) * (row.alpha - before);
      }
    for (size_t j = 0; j < w_.size(); ++j)
      local_[0][j] = w_[j] + static_cast<W>(eta) * (local_[0][j] - w_[j]);
    pass.squared = eta * (pass.squared - length) + eta * eta * length;
    pass.separable = eta * pass.separable + 0.5 * (eta - eta * eta) * pass.curved;
    pass.balance *= eta;
  }

  // unseen: how many of the buckets before these are not part of w.
  Pass visit_buckets(Range buckets, W *w, std::vector<Undo> *undo, double bias,
                     int64_t unseen = 0) {
    const auto n_active = std::ssize(active_);
    Pass pass;
    pass.bias = static_cast<W>(bias);
    for (int64_t b = buckets.begin; b < buckets.end; ++b) {
      if (first_)
        set_scale(pass, rows_seen_ + (b - unseen) * bucket_);
      const int64_t begin = order_[b] * bucket_, end = std::min(begin + bucket_, n_active);
      const int64_t next = b + 1 < buckets.end ? order_[b + 1] * bucket_ : end;
      for (int64_t j = begin; j < end; ++j) {
        // Past the end of this bucket comes the next one.
        const int64_t ahead = j + rows_ahead;
        const int64_t soon = ahead < end ? ahead : next + (ahead - end);
        if (soon < n_active)
          view_.prefetch(active_[soon].at);
        const W before = active_[j].alpha;
        visit(active_[j], pass, w);
        if (undo && active_[j].alpha != before)
          undo->push_back({j, before});
      }
    }
    return pass;
  }

  double gap_of(const Record &row, const Rows &from, int64_t at) const {
    const W y = std::copysign(W(1), row.signed_cost);
    const W p = y * (from.dot(at, w_.data()) + static_cast<W>(bias_.value()));
    return Loss::gap(p, row.alpha, std::abs(row.signed_cost));
  }

  // Neighbours come together, for the sake of memory: their sums are what is drawn.
  template <class Gap> static DcdSample draw(Rng &rng, int64_t n_items, int64_t n, const Gap &gap) {
    constexpr int64_t together = 8;
    const int64_t n_groups = (n_items + together - 1) / together;
    if (n_groups == 0)
      return {0, 0};
    const auto draws = static_cast<double>((n + together - 1) / together);
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < draws; ++k) {
      const auto begin = static_cast<int64_t>(rng.below(n_groups)) * together;
      double here = 0;
      for (int64_t i = begin; i < std::min(begin + together, n_items); ++i)
        here += gap(i);
      sum += here;
      squares += here * here;
    }
    const double mean = sum / draws, variance = std::max(0.0, squares / draws - mean * mean);
    const auto groups = static_cast<double>(n_groups);
    return {groups * mean, groups * std::sqrt(variance / draws)};
  }

  void visit(Active &row, Pass &pass, W *w) {
    const W y = std::copysign(W(1), row.signed_cost), cost = std::abs(row.signed_cost);
    const W upper = Loss::upper(cost), curvature = Loss::curvature(cost);
    const W score = view_.dot(row.at, w);
    const W p = y * (pass.scale * score + pass.bias);
    const W gradient = p - W(Loss::target) + row.alpha * curvature;
    pass.gap += Loss::gap(p, row.alpha, cost);

    W projected = gradient;
    if (row.alpha <= 0) {
      if (gradient > shrink_beyond_)
        return shrink(row);
      projected = std::min(gradient, W(0));
    } else if (row.alpha >= upper) {
      if (gradient < -shrink_beyond_)
        return shrink(row);
      projected = std::max(gradient, W(0));
    }
    if (projected != 0) {
      pass.gradients += static_cast<double>(projected) * projected;
      ++pass.moved;
      if (row.squared_norm == unknown)
        row.squared_norm = cautious_norm(row.at);
      step(row, pass, w, y, score, gradient, upper,
           pass.scale * caution_ * (row.squared_norm + response_) + curvature);
    }
    pass.inside += row.alpha > 0 && row.alpha < upper;
  }

  void step(Active &row, Pass &pass, W *w, W y, W score, W gradient, W upper, W denominator) {
    // A row of zeros has no say in w: its dual variable goes straight to its bound, if it has one.
    const W bound = upper < infinity ? upper : row.alpha;
    const W target = denominator > 0 ? row.alpha - gradient / denominator : bound;
    const W next = std::clamp(target, W(0), upper);
    const W delta = (next - row.alpha) * y;
    if (delta == 0)
      return;
    const W cost = std::abs(row.signed_cost);
    pass.curved += static_cast<double>(Loss::curvature(cost) * delta * delta);
    pass.separable += separable(next, cost) - separable(row.alpha, cost);
    pass.squared += static_cast<double>(delta * (2 * score + delta * row.squared_norm));
    row.alpha = next;
    push(row.at, delta, w);
    pass.bias += pass.scale * caution_ * response_ * delta;
    pass.balance += static_cast<double>(delta);
  }

  // In the metric of the cautions; when the row is at hand anyway.
  W cautious_norm(int64_t at) const {
    W sum = 0;
    view_.for_each(at, [&](int64_t j, W value) { sum += cautions_[j] * value * value; });
    return sum;
  }

  void push(int64_t at, W delta, W *w) const {
    if (cautions_.empty())
      view_.add(at, caution_ * delta, w);
    else
      view_.for_each(at, [&](int64_t j, W value) { w[j] += cautions_[j] * (delta * value); });
  }

  // The first epoch's m/t is (m + t0)/(t + t0): few rows say little, and where costs are large, so
  // that rows seldom reach them, even many say little of how far the others go (measured on texts,
  // C from 0.005 to 100).
  void begin_scaling(int64_t n_rows) {
    rows_in_all_ = n_rows;
    rows_before_ = 2 * mean_cost_ * mean_norm_ * static_cast<double>(n_rows);
    first_ &= std::isfinite(rows_before_) && rows_before_ > 0;
  }

  double scale_after(int64_t seen) const {
    return (static_cast<double>(rows_in_all_) + rows_before_) /
           (static_cast<double>(seen) + rows_before_);
  }

  void set_scale(Pass &pass, int64_t seen) const {
    const double scale = scale_after(seen);
    pass.scale = static_cast<W>(scale);
    pass.bias = static_cast<W>(bias_.value(scale, pass.balance));
    // What the rows pay as they come estimates the loss; w was not much to go by at first.
    if (2 * seen < rows_in_all_)
      pass.gap = 0;
  }

  // P - D after the first epoch, from what the second half of the rows paid when they were seen;
  // with a bias, which is still on its way, no more is known than that.
  double first_gap(const Pass &pass) const {
    const double loss = 2 * pass.gap;
    return bias_.present() ? loss : std::max(0.0, loss + 0.5 * squared_weights_ - dual());
  }

  static double squared_norm(const std::vector<W> &w) {
    double sum = 0;
    for (const W wk : w)
      sum += static_cast<double>(wk) * wk;
    return sum;
  }

  void set_bounds(const Pass &pass, double times = 1) {
    shrink_beyond_ = pass.moved > 0 ? static_cast<W>(times * pass.motion()) : infinity;
  }

  void shrink(Active &row) {
    rested_[row.row].alpha = row.alpha;
    resting_[row.row] = 1;
    row.row = -1;
  }

  void drop_shrunk() {
    std::erase_if(active_, [](const Active &row) { return row.row < 0; });
    compact_if_few();
  }

  // At most a fifth of the matrix is ever copied.
  void compact_if_few() {
    active_nnz_ = 0;
    for (const Active &row : active_)
      active_nnz_ += view_.row_nnz(row.at);
    if (5 * active_nnz_ > rows_.nnz() || 2 * active_nnz_ > view_.nnz())
      return;
    typename Rows::Copy copy;
    copy.reserve(static_cast<int64_t>(active_.size()), active_nnz_);
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
  LargeVector<Record> rested_;   // all rows; alpha is up to date for those that are not active
  LargeVector<uint8_t> resting_; // 1: the row has been shrunk
  LargeVector<Active> active_;   // in row order
  std::vector<int64_t> order_;   // of the buckets
  int64_t n_useful_ = 0;         // rows with C_i > 0
  int64_t active_nnz_ = 0;       // about: stored entries of the active rows
  double mean_norm_ = 0, mean_cost_ = 0, separable_ = 0, squared_weights_ = 0;
  W shrink_beyond_ = infinity, response_ = 0;
  bool first_ = false; // alpha was zero, and no epoch is over; of that epoch:
  double rows_before_ = 0;
  int64_t rows_in_all_ = 0, rows_seen_ = 0; // m; of t, in parts of the rows that came earlier
  int64_t n_blocks_;
  int n_threads_;
  W caution_ = 1;                       // sigma' of CoCoA+
  std::vector<std::vector<W>> local_;   // the blocks' weights
  std::vector<std::vector<Undo>> undo_; // the blocks' steps
  // The epoch at hand.
  int64_t next_bucket_ = 0, bucket_ = 1;
  Pass so_far_;
  bool whole_ = true;
  // Of a part among others: alpha at the last `keep`, w at the start of a visit, how often steps
  // count (squared_norm is then of that metric).
  std::vector<W> before_, start_, cautions_;
};

} // namespace bridle
