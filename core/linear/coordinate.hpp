// Coordinate descent in the primal, on the columns of the rows:
//
//   min_{w, b}  sum_j [l1 |w_j| + l2/2 w_j^2] + sum_i C_i loss(p_i)
//
// by proximal Newton steps on a working set of columns. With g and h the first two derivatives of
// the losses in the scores, a step minimises
//
//   g'X d + 1/2 sum_i h_i (x_i.d)^2 + sum_j [l1 |w_j + d_j| + l2/2 (w_j + d_j)^2]
//
// one d_j after the other, and goes along d as far as the objective falls (Yuan, Ho & Lin, "An
// improved GLMNET for l1-regularized logistic regression", JMLR 2012). The working set has the
// columns with a weight and those that break the conditions of an optimum most; when they are fine,
// all columns are looked at again (Massias, Gramfort & Salmon, "Celer", ICML 2018; Bertrand et al.,
// "Beyond L1", NeurIPS 2022).
#pragma once

#include "base/memory.hpp"
#include "base/rng.hpp"
#include "losses.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <variant>
#include <vector>

namespace bridle {

// The columns of rows: a copy, made once, of what is not 0.
template <class Value> struct Columns {
  RawVector<int64_t> offsets;
  RawVector<int32_t> rows;
  RawVector<Value> values;

  template <RowsLike Rows> explicit Columns(const Rows &from) {
    if (from.n_rows > INT32_MAX)
      throw std::invalid_argument("there are more rows than 2^31");
    const int64_t n = from.n_features;
    std::vector<int64_t> next(n + 1, 0);
    for (int64_t i = 0; i < from.n_rows; ++i)
      from.for_each(i, [&](int64_t j, auto value) { next[j + 1] += value != 0; });
    std::partial_sum(next.begin(), next.end(), next.begin());
    offsets.resize(n + 1);
    std::copy(next.begin(), next.end(), offsets.data());
    rows.resize(next[n]);
    values.resize(next[n]);
    for (int64_t i = 0; i < from.n_rows; ++i)
      from.for_each(i, [&](int64_t j, auto value) {
        if (value == 0)
          return;
        rows.data()[next[j]] = static_cast<int32_t>(i);
        values.data()[next[j]++] = static_cast<Value>(value);
      });
  }

  template <class Visit>
  [[gnu::always_inline]] inline void for_each(int64_t j, Visit &&visit) const {
    const int64_t end = offsets.data()[j + 1];
    for (int64_t k = offsets.data()[j]; k < end; ++k)
      visit(rows.data()[k], static_cast<double>(values.data()[k]));
  }
};

// The second derivative of a smooth loss.
inline double bend_of(const Logistic &loss, double p) {
  const double slope = loss.slope(p);
  return slope * (1 - slope);
}
inline double bend_of(const SquaredHinge &, double p) { return p < 1 ? 2 : 0; }
// On the linear pieces, that of a parabola above the loss which touches it here.
inline double bend_of(const PiecewiseQuadratic &loss, double p) {
  const double a = loss.slope(p);
  if (a == 0)
    return loss.tube == 0 && loss.low < 0 && loss.high > 0 ? 1 / loss.curve : 0;
  return a * a / (loss.value(p) + 0.5 * loss.curve * a * a);
}
template <class L> double bend_of(const L &, double) {
  throw std::invalid_argument("the loss has no second derivative");
}

struct Penalty {
  double l1, l2;
  double value(double w) const { return l1 * std::abs(w) + 0.5 * l2 * w * w; }
  // The w that minimises slope (w - at) + bend/2 (w - at)^2 + the penalty.
  double best(double at, double slope, double bend) const {
    const double pull = bend * at - slope, sum = bend + l2;
    return pull > l1 ? (pull - l1) / sum : pull < -l1 ? (pull + l1) / sum : 0;
  }
  // How far 0 is from the slopes at w.
  double violation(double w, double slope) const {
    const double all = slope + l2 * w;
    if (w == 0)
      return std::max(0.0, std::abs(all) - l1);
    return std::abs(all + (w > 0 ? l1 : -l1));
  }
};

struct ColumnReport {
  double primal, dual, violation;
};

class ColumnDescent {
public:
  virtual ~ColumnDescent() = default;
  virtual ColumnReport epoch(Rng &rng) = 0;
  virtual void weights(double *out) const = 0; // the constant feature's is the last
  virtual void alpha(double *out) const = 0;
};

// The rows as a problem sees them; constant: the value of the constant feature.
struct ColumnSides {
  const double *signed_cost;
  const double *targets; // may be null
  double constant;
  Penalty penalty, constant_penalty;
};

template <class Value> class ColumnDescentOn final : public ColumnDescent {
public:
  template <RowsLike Rows>
  ColumnDescentOn(const Rows &rows, const AnyLoss &loss, const ColumnSides &sides, const double *w)
      : columns_(rows), loss_(loss), sides_(sides), n_(rows.n_rows), d_(rows.n_features),
        w_(w, w + d_ + 1), scores_(n_), g_(n_), h_(n_), moved_(n_), slopes_(d_ + 1) {
    for (int64_t i = 0; i < n_; ++i)
      scores_[i] = rows.dot(i, w_.data());
    derive();
    look();
  }

  ColumnReport epoch(Rng &rng) override {
    choose();
    const double asked = 0.2 * violation_;
    for (int step = 0; step < 20; ++step) {
      newton_step(rng, 0.1);
      derive();
      if (step >= 19 || violation_in_set() <= asked)
        break;
    }
    look();
    return report_;
  }

  void weights(double *out) const override { std::copy(w_.begin(), w_.end(), out); }
  void alpha(double *out) const override {
    for (int64_t i = 0; i < n_; ++i)
      out[i] = -g_[i] * sign(i);
  }

private:
  double sign(int64_t i) const { return std::signbit(sides_.signed_cost[i]) ? -1.0 : 1.0; }
  double margin(int64_t i, double score) const {
    return sides_.targets ? score - sides_.targets[i] : sign(i) * score;
  }
  const Penalty &penalty(int64_t j) const {
    return j < d_ ? sides_.penalty : sides_.constant_penalty;
  }
  bool has_constant() const { return sides_.constant != 0; }

  template <class Visit> [[gnu::always_inline]] inline void column(int64_t j, Visit &&visit) const {
    if (j < d_)
      columns_.for_each(j, visit);
    else
      for (int64_t i = 0; i < n_; ++i)
        visit(static_cast<int32_t>(i), sides_.constant);
  }

  // g and h at the scores, and the sum of the losses.
  void derive() {
    std::visit(
        [&](const auto &loss) {
          losses_ = 0;
          for (int64_t i = 0; i < n_; ++i) {
            const double cost = std::abs(sides_.signed_cost[i]), p = margin(i, scores_[i]);
            losses_ += cost == 0 ? 0 : cost * loss.value(p);
            g_[i] = -cost * sign(i) * loss.slope(p);
            h_[i] = cost * bend_of(loss, p);
          }
        },
        loss_);
  }

  double slope_of(int64_t j) const {
    double sum = 0;
    column(j, [&](int32_t i, double x) { sum += x * g_[i]; });
    return sum;
  }

  // All columns: their slopes, and how good the point is.
  void look() {
    violation_ = 0;
    double primal = losses_, largest = 0, squares = 0;
    const double l1 = sides_.penalty.l1, l2 = sides_.penalty.l2;
    for (int64_t j = 0; j < d_ + has_constant(); ++j) {
      slopes_[j] = slope_of(j);
      violation_ = std::max(violation_, penalty(j).violation(w_[j], slopes_[j]));
      primal += penalty(j).value(w_[j]);
      if (penalty(j).l1 == 0 && penalty(j).l2 == 0)
        continue;
      const double over = std::max(0.0, std::abs(slopes_[j]) - l1);
      largest = std::max(largest, std::abs(slopes_[j]));
      squares += over * over;
    }
    const double scale = l2 == 0 && largest > l1 ? l1 / largest : 1;
    double dual = l2 > 0 ? -squares / (2 * l2) : 0;
    std::visit(
        [&](const auto &loss) {
          for (int64_t i = 0; i < n_; ++i) {
            const double cost = std::abs(sides_.signed_cost[i]), a = -scale * g_[i] * sign(i);
            if (cost > 0)
              dual += loss.dual(a, cost) + (sides_.targets ? a * sides_.targets[i] : 0.0);
          }
        },
        loss_);
    report_ = {primal, dual, violation_};
  }

  // The working set: columns with a weight, and the worst of the others, twice as many.
  void choose() {
    std::vector<int64_t> others;
    set_.clear();
    for (int64_t j = 0; j < d_ + has_constant(); ++j) {
      if (w_[j] != 0 || j == d_)
        set_.push_back(j);
      else if (penalty(j).violation(w_[j], slopes_[j]) > 0)
        others.push_back(j);
    }
    const auto wanted = std::max<int64_t>(100, 2 * std::ssize(set_));
    if (std::ssize(others) > wanted) {
      std::nth_element(others.begin(), others.begin() + wanted, others.end(), [&](auto a, auto b) {
        const double x = std::abs(slopes_[a]), y = std::abs(slopes_[b]);
        return x != y ? x > y : a < b;
      });
      others.resize(wanted);
    }
    set_.insert(set_.end(), others.begin(), others.end());
    std::sort(set_.begin(), set_.end());
    bends_.resize(set_.size());
    steps_.resize(set_.size());
    small_ = model_is_small();
    if (small_)
      gather_rows();
  }

  // The rows of the set's columns, each with their places in the set, in order.
  void gather_rows() {
    std::vector<int64_t> next(n_ + 1, 0);
    const auto m = std::ssize(set_);
    for (const int64_t j : set_)
      column(j, [&](int32_t i, double) { ++next[i + 1]; });
    std::partial_sum(next.begin(), next.end(), next.begin());
    begins_ = next;
    own_.resize(next[n_]);
    for (int64_t k = 0; k < m; ++k)
      column(set_[k], [&](int32_t i, double x) {
        own_[next[i]++] = {static_cast<int32_t>(k), static_cast<Value>(x)};
      });
  }

  double violation_in_set() {
    double largest = 0;
    for (const int64_t j : set_) {
      slopes_[j] = slope_of(j);
      largest = std::max(largest, penalty(j).violation(w_[j], slopes_[j]));
    }
    return largest;
  }

  // Along the step that the quadratic model asks for, to this part of its violation. The slopes of
  // the set are those of here.
  void newton_step(Rng &rng, double accuracy) {
    const auto m = std::ssize(set_);
    std::fill(moved_.begin(), moved_.end(), 0.0);
    std::fill(steps_.begin(), steps_.end(), 0.0);
    if (small_) {
      fill_matrix();
      descend_on_matrix(rng, 0.1 * accuracy);
      for (int64_t k = 0; k < m; ++k)
        if (steps_[k] != 0)
          column(set_[k], [&](int32_t i, double x) { moved_[i] += steps_[k] * x; });
    } else {
      for (int64_t k = 0; k < m; ++k) {
        double sum = 0;
        column(set_[k], [&](int32_t i, double x) { sum += h_[i] * x * x; });
        bends_[k] = sum + 1e-12;
      }
      descend_on_columns(rng, accuracy);
    }
    search();
  }

  // On the quadratic model, by columns: a weight costs two passes over its column.
  void descend_on_columns(Rng &rng, double accuracy) {
    const auto m = std::ssize(set_);
    std::vector<int64_t> active(m);
    std::iota(active.begin(), active.end(), 0);
    double first = -1, bound = std::numeric_limits<double>::infinity();
    for (int sweep = 0; sweep < 100; ++sweep) {
      double largest = 0;
      for (int64_t k = std::ssize(active) - 1; k > 0; --k)
        std::swap(active[k], active[rng.below(k + 1)]);
      int64_t kept = 0;
      for (const int64_t k : active) {
        const int64_t j = set_[k];
        double slope = slopes_[j];
        column(j, [&](int32_t i, double x) { slope += h_[i] * moved_[i] * x; });
        const double at = w_[j] + steps_[k];
        const Penalty &own = penalty(j);
        largest = std::max(largest, own.violation(at, slope));
        if (at == 0 && std::abs(slope) < own.l1 - bound)
          continue; // rests at 0 until all the others are fine
        active[kept++] = k;
        const double change = own.best(at, slope, bends_[k]) - at;
        if (change == 0)
          continue;
        steps_[k] += change;
        column(j, [&](int32_t i, double x) { moved_[i] += change * x; });
      }
      const bool whole = std::ssize(active) == m;
      active.resize(kept);
      if (first < 0)
        first = largest;
      if (largest <= accuracy * first) {
        if (whole)
          break;
        active.resize(m);
        std::iota(active.begin(), active.end(), 0);
        bound = std::numeric_limits<double>::infinity();
      } else {
        bound = largest;
      }
    }
  }

  // Whether sum_i h_i x_i x_i' over the set is worth its price: rows with few columns of the set
  // take no longer to enter it than some dozen sweeps.
  bool model_is_small() const {
    const auto m = static_cast<double>(set_.size());
    double entries = has_constant() ? static_cast<double>(n_) : 0;
    for (const int64_t j : set_)
      if (j < d_)
        entries += static_cast<double>(columns_.offsets[j + 1] - columns_.offsets[j]);
    return m <= 1000 && entries <= 100.0 * static_cast<double>(n_) && m * m <= 8 * entries;
  }

  // The same by the matrix of the model: a weight costs a row of it.
  void descend_on_matrix(Rng &rng, double accuracy) {
    const auto m = std::ssize(set_);
    pulls_.resize(m);
    for (int64_t k = 0; k < m; ++k)
      pulls_[k] = slopes_[set_[k]];
    std::vector<int64_t> order(m);
    std::iota(order.begin(), order.end(), 0);
    double first = -1;
    for (int sweep = 0; sweep < 1000; ++sweep) {
      double largest = 0;
      for (int64_t k = m - 1; k > 0; --k)
        std::swap(order[k], order[rng.below(k + 1)]);
      for (const int64_t k : order) {
        const Penalty &own = penalty(set_[k]);
        const double at = w_[set_[k]] + steps_[k];
        largest = std::max(largest, own.violation(at, pulls_[k]));
        const double change = own.best(at, pulls_[k], bends_[k]) - at;
        if (change == 0)
          continue;
        steps_[k] += change;
        const double *line = matrix_.data() + k * m;
        for (int64_t l = 0; l < m; ++l)
          pulls_[l] += change * line[l];
      }
      if (first < 0)
        first = largest;
      if (largest <= accuracy * first)
        break;
    }
  }

  void fill_matrix() {
    const auto m = std::ssize(set_);
    matrix_.assign(m * m, 0.0);
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t a = begins_[i]; h_[i] != 0 && a < begins_[i + 1]; ++a) {
        double *line = matrix_.data() + own_[a].place * m;
        const double scaled = h_[i] * static_cast<double>(own_[a].x);
        for (int64_t b = begins_[i]; b <= a; ++b)
          line[own_[b].place] += scaled * static_cast<double>(own_[b].x);
      }
    for (int64_t k = 0; k < m; ++k) {
      bends_[k] = matrix_[k * m + k] + 1e-12;
      for (int64_t l = 0; l < k; ++l)
        matrix_[l * m + k] = matrix_[k * m + l];
    }
  }

  // w += t d: t is halved until the objective falls by a part of what the model promises.
  void search() {
    const auto m = std::ssize(set_);
    double promised = 0;
    for (int64_t k = 0; k < m; ++k)
      if (steps_[k] != 0) {
        const int64_t j = set_[k];
        promised +=
            slopes_[j] * steps_[k] + penalty(j).value(w_[j] + steps_[k]) - penalty(j).value(w_[j]);
      }
    // Near the optimum what is promised is less than rounding: the step is then as good as its
    // model.
    const double slack = 1e-14 * (losses_ + report_.primal);
    if (!(promised < slack))
      return;
    std::visit(
        [&](const auto &loss) {
          double t = 1;
          for (int trial = 0; trial < 30; ++trial, t *= 0.5) {
            double change = 0;
            for (int64_t i = 0; i < n_; ++i)
              if (moved_[i] != 0) {
                const double cost = std::abs(sides_.signed_cost[i]);
                change += cost == 0 ? 0
                                    : cost * (loss.value(margin(i, scores_[i] + t * moved_[i])) -
                                              loss.value(margin(i, scores_[i])));
              }
            for (int64_t k = 0; k < m; ++k)
              if (steps_[k] != 0)
                change += penalty(set_[k]).value(w_[set_[k]] + t * steps_[k]) -
                          penalty(set_[k]).value(w_[set_[k]]);
            if (change > 0.01 * t * std::min(promised, 0.0) + slack)
              continue;
            for (int64_t k = 0; k < m; ++k)
              w_[set_[k]] += t * steps_[k];
            for (int64_t i = 0; i < n_; ++i)
              scores_[i] += t * moved_[i];
            return;
          }
        },
        loss_);
  }

  Columns<Value> columns_;
  AnyLoss loss_;
  ColumnSides sides_;
  int64_t n_, d_;
  std::vector<double> w_, scores_, g_, h_, moved_, slopes_, bends_, steps_, matrix_, pulls_;
  struct Entry {
    int32_t place;
    Value x;
  };
  std::vector<Entry> own_;
  std::vector<int64_t> set_, begins_;
  bool small_ = false;
  double losses_ = 0, violation_ = 0;
  ColumnReport report_{};
};

} // namespace bridle
