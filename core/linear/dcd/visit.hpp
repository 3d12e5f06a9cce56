// One row's step, and the visit of some buckets of rows by such steps.
#pragma once

#include "base/function_ref.hpp"
#include "linear/dcd/active.hpp"
#include "linear/dcd/buckets.hpp"
#include "linear/dcd/state.hpp"
#include "losses.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <variant>

namespace bridle {

// How a step is held back, since others are stepping at the same time.
template <class W> struct Caution {
  static constexpr W unknown = -1; // a squared norm that is computed when it is needed

  W times = 1;           // how often each step counts: sigma' of CoCoA+
  const W *of = nullptr; // the same for each feature; squared norms are in that metric
  bool later = false;    // w does not follow each step, but all of a round

  // When the row is at hand anyway.
  template <RowsLike Rows> W norm(ActiveRow<W> &row, const Rows &view) const {
    if (of && row.squared_norm == unknown) {
      W sum = 0;
      view.for_each(row.at, [&](int64_t j, W value) { sum += of[j] * value * value; });
      row.squared_norm = sum;
    }
    return row.squared_norm;
  }

  template <RowsLike Rows> void push(const Rows &view, int64_t at, W delta, W *w) const {
    if (of)
      view.for_each(at, [&](int64_t j, W value) { w[j] += of[j] * (delta * value); });
    else
      view.add(at, times * delta, w);
  }
};

// What steps depend on beside the row and its loss.
template <class W> struct StepSettings {
  Caution<W> caution;
  W response, shrink_beyond; // db / d beta; see ActiveRows
};

// Before bucket b; after the alpha of an active row has moved: its number, alpha before.
template <class W> using BeginBucket = FunctionRef<void(DcdPass<W> &, int64_t)>;
template <class W> using Moved = FunctionRef<void(int64_t, W)>;

// What a descent asks of a loss. Only this is compiled for every loss; all else once for a kind of
// rows.
template <RowsLike Rows> class LossSteps {
public:
  using W = typename Rows::Value;

  virtual ~LossSteps() = default;
  // Visits the rows at these places of the order, in which bucket b has the places from b times the
  // size of a bucket on.
  virtual void visit(ActiveRows<Rows> &rows, const Buckets &order, Range places,
                     const StepSettings<W> &settings, DcdPass<W> &pass, W *w,
                     BeginBucket<W> begin_bucket, Moved<W> moved) const = 0;
  // The same for the rows of whole buckets.
  DcdPass<W> visit_buckets(ActiveRows<Rows> &rows, const Buckets &order, Range buckets,
                           const StepSettings<W> &settings, W bias, W *w,
                           BeginBucket<W> begin_bucket, Moved<W> moved) const {
    DcdPass<W> pass;
    pass.bias = bias;
    visit(rows, order, order.places_of(buckets), settings, pass, w, begin_bucket, moved);
    return pass;
  }
  // A row's part of P - D.
  virtual W gap(const DualRow<W> &row, W score) const = 0;
  // A row's part of the dual but for 1/2 |w|^2, at this alpha.
  virtual double separable(W alpha, const DualRow<W> &row) const = 0;
  virtual W curvature(W cost) const = 0;
  virtual bool quadratic() const = 0; // the dual
};

template <RowsLike Rows> using StepsOf = std::unique_ptr<const LossSteps<Rows>>;

template <RowsLike Rows, LossLike Loss> class StepsBy final : public LossSteps<Rows> {
public:
  using W = typename Rows::Value;
  using Pass = DcdPass<W>;

  explicit StepsBy(const Loss &loss) : loss_(loss) {}

  void visit(ActiveRows<Rows> &rows, const Buckets &order, Range places,
             const StepSettings<W> &settings, Pass &total, W *w, BeginBucket<W> begin_bucket,
             Moved<W> moved) const override {
    constexpr int64_t rows_ahead = 4;
    const int64_t n_active = rows.size(), bucket = order.bucket();
    const Rows view = rows.view;
    const StepSettings<W> how = settings;
    const bool wide = view.n_features >= wide_rows;
    Pass pass = total;
    for (int64_t b = places.begin / bucket; b * bucket < places.end; ++b) {
      if (begin_bucket) {
        Pass seen = pass; // or the compiler would expect changes of `pass` at every call
        begin_bucket(seen, b);
        pass = seen;
      }
      const int64_t first = order.first_row(b) - b * bucket; // the row that place 0 would have
      const int64_t begin = first + std::max(places.begin, b * bucket);
      const int64_t end = std::min(order.end_row(b), first + places.end);
      const int64_t next = (b + 1) * bucket < places.end ? order.first_row(b + 1) : end;
      for (int64_t j = begin; j < end; ++j) {
        // Past the end of this bucket comes the next one.
        const int64_t ahead = j + rows_ahead;
        const int64_t soon = ahead < end ? ahead : next + (ahead - end);
        if (soon < n_active)
          view.prefetch(rows.active[soon].at);
        if (wide && j + 1 < end)
          view.prefetch_weights(rows.active[j + 1].at, w);
        ActiveRow<W> &row = rows.active[j];
        const W before = row.alpha;
        if (!visit(row, view, how, pass, w))
          rows.shrink(row);
        else if (moved && row.alpha != before)
          moved(j, before);
      }
    }
    total = pass;
  }

  W gap(const DualRow<W> &row, W score) const override {
    return loss_.gap(row.label() * score - row.target, row.alpha, row.cost());
  }
  double separable(W alpha, const DualRow<W> &row) const override {
    return separable_dual(loss_, alpha, row.cost(), row.target);
  }
  W curvature(W cost) const override { return loss_.curvature(cost); }
  bool quadratic() const override { return std::derived_from<Loss, QuadraticDual<Loss>>; }

private:
  // False: the row rests at a bound or a kink, and is worth no more visits.
  bool visit(ActiveRow<W> &row, const Rows &view, const StepSettings<W> &how, Pass &pass,
             W *w) const {
    const W cost = row.cost();
    const W score = view.dot(row.at, w);
    const W p = row.label() * (pass.scale * score + pass.bias) - row.target;
    pass.gap += loss_.gap(p, row.alpha, cost);

    if constexpr (Loss::rests) {
      const auto [below, above] = loss_.slopes(p, row.alpha, cost);
      if (-below > how.shrink_beyond && above > how.shrink_beyond)
        return false;
      const W projected = below > 0 ? below : above < 0 ? above : W(0);
      if (projected != 0) {
        pass.gradients += static_cast<double>(projected) * projected;
        ++pass.moved;
        step(row, view, how, pass, w, p, score);
      }
    } else {
      step(row, view, how, pass, w, p, score);
    }
    pass.inside += row.alpha > loss_.lower(cost) && row.alpha < loss_.upper(cost);
    return true;
  }

  // The best, with the others held, and inside the box.
  void step(ActiveRow<W> &row, const Rows &view, const StepSettings<W> &how, Pass &pass, W *w, W p,
            W score) const {
    const Caution<W> &caution = how.caution;
    const W cost = row.cost(), squared_norm = caution.norm(row, view);
    const W q = pass.scale * caution.times * (squared_norm + how.response);
    const W next = loss_.best(p, row.alpha, q, cost), moved = next - row.alpha;
    if (moved == 0)
      return;
    const W delta = moved * row.label();
    pass.curved += static_cast<double>(loss_.curvature(cost) * moved * moved);
    pass.separable += separable_dual(loss_, next, cost, row.target) -
                      separable_dual(loss_, row.alpha, cost, row.target);
    pass.squared += static_cast<double>(delta * (2 * score + delta * squared_norm));
    row.alpha = next;
    if (!caution.later) {
      caution.push(view, row.at, delta, w);
      pass.bias += pass.scale * caution.times * how.response * delta;
    }
    pass.balance += static_cast<double>(delta);
  }

  [[no_unique_address]] Loss loss_;
};

// The steps of a loss that the core knows.
template <RowsLike Rows> StepsOf<Rows> steps_by(const AnyLoss &loss) {
  return std::visit(
      [](const auto &l) -> StepsOf<Rows> {
        using Loss = std::decay_t<decltype(l)>;
        // max(0, -p) is piecewise, too: its own slope at the kink is that of the perceptron's step.
        if constexpr (std::same_as<Loss, PerceptronLoss>)
          return std::make_unique<StepsBy<Rows, PiecewiseQuadratic>>(
              PiecewiseQuadratic{.target = 0, .low = 0, .high = 1});
        else
          return std::make_unique<StepsBy<Rows, Loss>>(l);
      },
      loss);
}

} // namespace bridle
