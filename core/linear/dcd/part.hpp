// Dual coordinate descent on one of many parts of a problem, the other rows being elsewhere
// (CoCoA+, Ma, Smith, Jaggi et al., ICML 2015). A part holds its rows and their alpha; w and the
// bias are of all parts together and come with every visit.
#pragma once

#include "linear/dcd/report.hpp"
#include "linear/dcd/visit.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace bridle {

class DcdPart {
public:
  const int64_t n_rows, n_weights;

  DcdPart(int64_t rows, int64_t weights) : n_rows(rows), n_weights(weights) {}
  virtual ~DcdPart() = default;
  // Visits the next `share` of an epoch, from the weights and the bias of all parts together. To
  // `step` is added sum d_alpha_i z_i. The rows' steps are kept, all or in part, by `keep`.
  virtual DcdShare visit(Rng &rng, int64_t bucket, double share, const double *w, double bias,
                         double response, double *step) = 0;
  // Since the other parts are stepping, too: from now on each step counts so many times, for each
  // feature and, last, for the bias.
  virtual void set_caution(const double *caution) = 0;
  virtual DcdMove moved() = 0;
  // Goes this part of the way from where the rows were at the last call.
  virtual void keep(double part) = 0;
  virtual void unshrink() = 0;
  virtual int64_t n_active() const = 0;
  virtual void alpha(double *out) const = 0;
};

template <RowsLike Rows> class DcdPartOn final : public DcdPart {
public:
  using W = typename Rows::Value;

  DcdPartOn(const Rows &rows, StepsOf<Rows> loss, const RowSides &sides, const double *start_alpha)
      : DcdPart(rows.n_rows, rows.n_features + 1), loss_(std::move(loss)),
        rows_(rows, sides, start_alpha), w_(n_weights), cautions_(n_weights, W(1)),
        before_(start_alpha, start_alpha + n_rows) {}

  DcdShare visit(Rng &rng, int64_t bucket, double share, const double *w, double bias,
                 double response, double *step) override {
    if (order_.between_epochs()) {
      // Few rows: no more of them at a time than were asked for.
      const auto few = static_cast<int64_t>(std::ceil(share * static_cast<double>(rows_.size())));
      order_.shuffle(rng, rows_.size(), std::clamp<int64_t>(few, 1, bucket));
      so_far_ = {};
      whole_ = rows_.whole();
    }
    const Range buckets = order_.next(share);

    std::copy(w, w + n_weights, w_.begin());
    w_.back() = 0; // of the constant feature, which the bias stands for
    start_ = w_;
    const StepSettings<W> settings{
        {.of = cautions_.data()}, static_cast<W>(response) * cautions_.back(), shrink_beyond_};
    const DcdPass<W> pass = loss_->visit_buckets(rows_, order_, buckets, settings,
                                                 static_cast<W>(bias), w_.data(), {}, {});
    for (int64_t j = 0; j < n_weights; ++j)
      step[j] += (w_[j] - start_[j]) / cautions_[j];

    so_far_ = so_far_.then(pass);
    const int64_t visits = order_.rows_of(buckets);
    const bool finished = order_.between_epochs();
    if (finished) {
      rows_.drop_shrunk();
      shrink_beyond_ = so_far_.shrink_bound();
    }
    return {visits, pass.inside, pass.gap, pass.balance, finished, whole_};
  }

  void set_caution(const double *caution) override {
    std::copy(caution, caution + n_weights, cautions_.begin());
    for (DualRow<W> &row : rows_.all())
      row.squared_norm = Caution<W>::unknown;
    for (ActiveRow<W> &row : rows_.active)
      row.squared_norm = Caution<W>::unknown;
  }

  DcdMove moved() override {
    rows_.rest();
    DcdMove sum{};
    for (int64_t i = 0; i < n_rows; ++i) {
      const DualRow<W> &row = rows_.all()[i];
      if (row.alpha == before_[i])
        continue;
      const double delta = static_cast<double>(row.alpha) - before_[i];
      sum.separable += loss_->separable(row.alpha, row) - loss_->separable(before_[i], row);
      sum.balance += static_cast<double>(row.label()) * delta;
      sum.curvature += static_cast<double>(loss_->curvature(row.cost())) * delta * delta;
    }
    return sum;
  }

  void keep(double part) override {
    rows_.rest();
    const auto t = static_cast<W>(part);
    for (int64_t i = 0; i < n_rows; ++i) {
      W &alpha = rows_.all()[i].alpha;
      if (t != 1)
        alpha = before_[i] + t * (alpha - before_[i]);
      before_[i] = alpha;
    }
    for (ActiveRow<W> &row : rows_.active)
      if (!row.shrunk())
        row.alpha = rows_.all()[row.row].alpha;
  }

  void unshrink() override {
    rows_.unshrink();
    order_.restart();
  }

  int64_t n_active() const override { return rows_.size(); }
  void alpha(double *out) const override { rows_.alpha(out); }

private:
  StepsOf<Rows> loss_;
  ResidentRows<Rows> rows_;
  std::vector<W> w_, start_; // of the visit at hand: now, and when it began
  std::vector<W> cautions_;  // how often steps count
  std::vector<W> before_;    // alpha at the last `keep`
  W shrink_beyond_ = std::numeric_limits<W>::infinity();
  // The epoch at hand.
  Buckets order_;
  DcdPass<W> so_far_;
  bool whole_ = true;
};

} // namespace bridle
