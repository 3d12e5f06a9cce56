// Dual coordinate descent on one of many parts of a problem, the other rows being elsewhere
// (CoCoA+, Ma, Smith, Jaggi et al., ICML 2015). A part holds its rows and their alpha; w and the
// bias are of all parts together and come with every visit.
#pragma once

#include "linear/dcd/report.hpp"
#include "linear/dcd/sample.hpp"
#include "linear/dcd/visit.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace bridle {

// What all parts share, as a visit of one of them begins.
struct Shared {
  const double *w;
  double bias, response, balance; // db / d beta; beta = sum alpha y
};

// The first epoch from zero, see `FirstEpoch`: of all parts' rows so many were seen before, and for
// each that a part sees now, it expects all to see so many.
struct FirstShare {
  double rows_in_all, rows_before, rows_seen, at_once;
};

class DcdPart {
public:
  const int64_t n_rows, n_weights;

  DcdPart(int64_t rows, int64_t weights) : n_rows(rows), n_weights(weights) {}
  virtual ~DcdPart() = default;
  // Visits the next `share` of an epoch, from the weights and the bias of all parts together. To
  // `step` is added sum d_alpha_i z_i. The rows' steps are kept, all or in part, by `keep`.
  virtual DcdShare visit(Rng &rng, int64_t bucket, double share, const Shared &from,
                         const std::optional<FirstShare> &first, double *step) = 0;
  // Since the other parts are stepping, too: from now on each step counts so many times, for each
  // feature and, last, for the bias.
  virtual void set_caution(const double *caution) = 0;
  // The rows' parts of P - D at the weights and the bias of all parts, by n rows that are drawn of
  // either kind.
  virtual DcdLook look(Rng &rng, int64_t n, const double *w, double bias) = 0;
  // Of the rows in play, at these weights; NaN for those that rest.
  virtual void scores(const double *w, double bias, double *out) = 0;
  virtual DcdMove moved() = 0;
  // Goes this part of the way from where the rows were at the last call.
  virtual void keep(double part) = 0;
  virtual void unshrink() = 0;
  virtual int64_t n_active() const = 0;
  virtual void alpha(double *out) const = 0;
  // Of these rows, from outside. If one of them rests, all rows are in play again.
  virtual void set_alpha(const int64_t *rows, int64_t n, const double *alpha) = 0;
  virtual void resting(uint8_t *out) const = 0; // 1: the row was left out
};

template <RowsLike Rows> class DcdPartOn final : public DcdPart {
public:
  using W = typename Rows::Value;

  DcdPartOn(const Rows &rows, StepsOf<Rows> loss, const RowSides &sides, const double *start_alpha)
      : DcdPart(rows.n_rows, rows.n_features + 1), loss_(std::move(loss)),
        rows_(rows, sides, start_alpha), w_(n_weights), has_moved_(n_rows, 0) {}

  DcdShare visit(Rng &rng, int64_t bucket, double share, const Shared &from,
                 const std::optional<FirstShare> &first, double *step) override {
    if (order_.between_epochs()) {
      // Few rows: no more of them at a time than were asked for.
      const auto few = static_cast<int64_t>(std::ceil(share * static_cast<double>(rows_.size())));
      order_.shuffle(rng, rows_.size(), std::clamp<int64_t>(few, 1, bucket));
      so_far_ = {};
      whole_ = rows_.whole();
    }
    const Range buckets = order_.next(share);

    take_weights(from.w);
    start_ = w_;
    const StepSettings<W> settings{{.of = cautions_.empty() ? nullptr : cautions_.data()},
                                   static_cast<W>(from.response) * caution(n_weights - 1),
                                   shrink_beyond_};
    auto scale = [&](DcdPass<W> &pass, int64_t b) {
      set_scale(pass, b - buckets.begin, from, *first);
    };
    const DcdPass<W> pass =
        loss_->visit_buckets(rows_, order_, buckets, settings, static_cast<W>(from.bias), w_.data(),
                             first ? BeginBucket<W>(scale) : BeginBucket<W>(),
                             [&](int64_t j, W before) { remember(j, before); });
    for (int64_t j = 0; j < n_weights; ++j)
      step[j] += (w_[j] - start_[j]) / caution(j);

    so_far_ = so_far_.then(pass);
    const int64_t visits = order_.rows_of(buckets);
    const bool finished = order_.between_epochs();
    if (finished)
      end_epoch(first.has_value());
    else if (!first && std::isinf(shrink_beyond_) && 8 * buckets.end > order_.size())
      shrink_beyond_ = so_far_.shrink_bound();
    return {visits, pass.inside, pass.gap, pass.balance, finished, whole_};
  }

  void set_caution(const double *caution) override {
    cautions_.assign(caution, caution + n_weights);
    for (DualRow<W> &row : rows_.all())
      row.squared_norm = Caution<W>::unknown;
    for (ActiveRow<W> &row : rows_.active)
      row.squared_norm = Caution<W>::unknown;
  }

  DcdLook look(Rng &rng, int64_t n, const double *w, double bias) override {
    take_weights(w);
    const auto b = static_cast<W>(bias);
    auto gap_of = [&](const DualRow<W> &row, const Rows &from, int64_t at) -> double {
      return loss_->gap(row, from.dot(at, w_.data()) + b);
    };
    auto active = [&](int64_t j) {
      const ActiveRow<W> &row = rows_.active[j];
      return row.shrunk() ? 0.0 : gap_of(row, rows_.view, row.at);
    };
    auto resting = [&](int64_t i) {
      return rows_.resting(i) ? gap_of(rows_.all()[i], rows_.matrix(), i) : 0.0;
    };
    return {sample_gap(rng, rows_.size(), n, 1, active), sample_gap(rng, n_rows, n, 1, resting)};
  }

  void scores(const double *w, double bias, double *out) override {
    take_weights(w);
    std::fill(out, out + n_rows, std::numeric_limits<double>::quiet_NaN());
    for (const ActiveRow<W> &row : rows_.active)
      if (!row.shrunk())
        out[row.row] = static_cast<double>(rows_.view.dot(row.at, w_.data())) + bias;
  }

  DcdMove moved() override {
    write_down();
    DcdMove sum{};
    for (const Undo &undo : undo_) {
      const DualRow<W> &row = rows_.all()[undo.row];
      const double delta = static_cast<double>(now(undo)) - undo.alpha;
      sum.rows += now(undo) != undo.alpha;
      sum.separable += loss_->separable(now(undo), row) - loss_->separable(undo.alpha, row);
      sum.balance += static_cast<double>(row.label()) * delta;
      sum.curvature += static_cast<double>(loss_->curvature(row.cost())) * delta * delta;
    }
    return sum;
  }

  void keep(double part) override {
    write_down();
    const auto t = static_cast<W>(part);
    for (const Undo &undo : undo_) {
      has_moved_[undo.row] = 0;
      if (t == 1)
        continue;
      const W alpha = undo.alpha + t * (now(undo) - undo.alpha);
      rows_.all()[undo.row].alpha = alpha;
      if (is_numbered(undo))
        rows_.active[undo.at].alpha = alpha;
    }
    if (renumbered_ && t != 1)
      for (ActiveRow<W> &row : rows_.active)
        if (!row.shrunk())
          row.alpha = rows_.all()[row.row].alpha;
    undo_.clear();
    renumbered_ = false;
  }

  void unshrink() override {
    rows_.unshrink();
    renumbered_ = true;
    order_.restart();
  }

  int64_t n_active() const override { return rows_.size(); }
  void alpha(double *out) const override { rows_.alpha(out); }
  void set_alpha(const int64_t *rows, int64_t n, const double *alpha) override {
    keep(1);
    rows_.rest();
    bool woken = false;
    for (int64_t k = 0; k < n; ++k) {
      rows_.all()[rows[k]].alpha = static_cast<W>(alpha[k]);
      woken |= rows_.resting(rows[k]);
    }
    for (ActiveRow<W> &row : rows_.active)
      if (!row.shrunk())
        row.alpha = rows_.all()[row.row].alpha;
    if (woken)
      unshrink();
  }
  void resting(uint8_t *out) const override {
    for (int64_t i = 0; i < n_rows; ++i)
      out[i] = static_cast<uint8_t>(rows_.resting(i));
  }

private:
  // A row that has moved since the last `keep`: its place among the active rows, and alpha before.
  struct Undo {
    int64_t at, row;
    W alpha;
  };

  void take_weights(const double *w) {
    std::copy(w, w + n_weights, w_.begin());
    w_.back() = 0; // of the constant feature, which the bias stands for
  }

  W caution(int64_t j) const { return cautions_.empty() ? W(1) : cautions_[j]; }

  void remember(int64_t at, W before) {
    const int64_t row = rows_.active[at].row;
    if (!std::exchange(has_moved_[row], uint8_t{1}))
      undo_.push_back({at, row, before});
  }

  // Whether its place is known; else, and if it was left out, alpha stands with all rows.
  bool is_numbered(const Undo &undo) const {
    return !renumbered_ && !rows_.active[undo.at].shrunk();
  }
  W now(const Undo &undo) const {
    return is_numbered(undo) ? rows_.active[undo.at].alpha : rows_.all()[undo.row].alpha;
  }
  void write_down() {
    if (renumbered_)
      rows_.rest();
  }

  // w = m/t v, of all parts together: the others do as this one does.
  void set_scale(DcdPass<W> &pass, int64_t bucket, const Shared &from,
                 const FirstShare &first) const {
    const auto here = static_cast<double>(bucket * order_.bucket());
    const double seen = first.rows_seen + first.at_once * here;
    const double scale = (first.rows_in_all + first.rows_before) / (seen + first.rows_before);
    const double change = caution(n_weights - 1) * pass.balance;
    pass.scale = static_cast<W>(scale);
    pass.bias =
        static_cast<W>(from.bias + from.response * ((scale - 1) * from.balance + scale * change));
  }

  void end_epoch(bool first) {
    rows_.drop_shrunk();
    renumbered_ = true;
    // What moved in the first epoch says nothing of the next one.
    shrink_beyond_ = first ? std::numeric_limits<W>::infinity() : so_far_.shrink_bound();
  }

  StepsOf<Rows> loss_;
  ResidentRows<Rows> rows_;
  std::vector<W> w_, start_; // of the visit at hand: now, and when it began
  std::vector<W> cautions_;  // how often steps count; empty: once
  std::vector<Undo> undo_;
  RawVector<uint8_t> has_moved_;
  bool renumbered_ = false; // the active rows, since the last `keep`
  W shrink_beyond_ = std::numeric_limits<W>::infinity();
  // The epoch at hand.
  Buckets order_;
  DcdPass<W> so_far_;
  bool whole_ = true;
};

} // namespace bridle
