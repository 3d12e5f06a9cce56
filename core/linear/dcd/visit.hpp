// One row's step, and the visit of some buckets of rows by such steps.
#pragma once

#include "linear/dcd/active.hpp"
#include "linear/dcd/buckets.hpp"
#include "linear/dcd/state.hpp"
#include "losses.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cstdint>

namespace bridle {

// How often a step counts, since others are stepping at the same time (sigma' of CoCoA+): the same
// for every feature.
template <class W> struct EvenCaution {
  static constexpr bool at_once = true; // w follows each step
  W times = 1;

  template <RowsLike Rows> W norm(ActiveRow<W> &row, const Rows &) const {
    return row.squared_norm;
  }
  template <RowsLike Rows> void push(const Rows &view, int64_t at, W delta, W *w) const {
    view.add(at, times * delta, w);
  }
};

// The step of a row: the best, with the others held, and inside the box.
template <RowsLike Rows, LossLike Loss, class Caution> struct RowStep {
  using W = typename Rows::Value;
  using Pass = DcdPass<W>;

  Rows view;
  Caution caution;
  W response, shrink_beyond; // db / d beta; see ActiveRows
  [[no_unique_address]] Loss loss;

  // False: the row rests at a bound or a kink, and is worth no more visits.
  bool visit(ActiveRow<W> &row, Pass &pass, W *w) const {
    const W cost = row.cost();
    const W score = view.dot(row.at, w);
    const W p = row.label() * (pass.scale * score + pass.bias) - row.target;
    pass.gap += loss.gap(p, row.alpha, cost);

    if constexpr (Loss::rests) {
      const auto [below, above] = loss.slopes(p, row.alpha, cost);
      if (-below > shrink_beyond && above > shrink_beyond)
        return false;
      const W projected = below > 0 ? below : above < 0 ? above : W(0);
      if (projected != 0) {
        pass.gradients += static_cast<double>(projected) * projected;
        ++pass.moved;
        step(row, pass, w, p, score);
      }
    } else {
      step(row, pass, w, p, score);
    }
    pass.inside += row.alpha > loss.lower(cost) && row.alpha < loss.upper(cost);
    return true;
  }

private:
  void step(ActiveRow<W> &row, Pass &pass, W *w, W p, W score) const {
    const W cost = row.cost(), squared_norm = caution.norm(row, view);
    const W q = pass.scale * caution.times * (squared_norm + response);
    const W next = loss.best(p, row.alpha, q, cost), moved = next - row.alpha;
    if (moved == 0)
      return;
    const W delta = moved * row.label();
    pass.curved += static_cast<double>(loss.curvature(cost) * moved * moved);
    pass.separable += separable_dual(loss, next, cost, row.target) -
                      separable_dual(loss, row.alpha, cost, row.target);
    pass.squared += static_cast<double>(delta * (2 * score + delta * squared_norm));
    row.alpha = next;
    if constexpr (Caution::at_once) {
      caution.push(view, row.at, delta, w);
      pass.bias += pass.scale * caution.times * response * delta;
    }
    pass.balance += static_cast<double>(delta);
  }
};

// Visits the rows at these places of the order, in which bucket b has the places from b times the
// size of a bucket on. Before each bucket: begin_bucket(pass, b). After a row's alpha has moved:
// moved(its number among the active, alpha before).
template <Shrinkable Active, class Step, class W, class Begin, class Moved>
void visit_places(Active &rows, const Buckets &order, Range places, const Step &step,
                  DcdPass<W> &pass, W *w, Begin &&begin_bucket, Moved &&moved) {
  constexpr int64_t rows_ahead = 4;
  const int64_t n_active = rows.size(), bucket = order.bucket();
  for (int64_t b = places.begin / bucket; b * bucket < places.end; ++b) {
    begin_bucket(pass, b);
    const int64_t first = order.first_row(b) - b * bucket; // the row that place 0 would have
    const int64_t begin = first + std::max(places.begin, b * bucket);
    const int64_t end = std::min(order.end_row(b), first + places.end);
    const int64_t next = (b + 1) * bucket < places.end ? order.first_row(b + 1) : end;
    for (int64_t j = begin; j < end; ++j) {
      // Past the end of this bucket comes the next one.
      const int64_t ahead = j + rows_ahead;
      const int64_t soon = ahead < end ? ahead : next + (ahead - end);
      if (soon < n_active)
        step.view.prefetch(rows.active[soon].at);
      ActiveRow<W> &row = rows.active[j];
      const W before = row.alpha;
      if (!step.visit(row, pass, w))
        rows.shrink(row);
      else if (row.alpha != before)
        moved(j, before);
    }
  }
}

// The same for the rows of whole buckets.
template <Shrinkable Active, class Step, class W, class Begin, class Moved>
DcdPass<W> visit_buckets(Active &rows, const Buckets &order, Range buckets, const Step &step,
                         W bias, W *w, Begin &&begin_bucket, Moved &&moved) {
  DcdPass<W> pass;
  pass.bias = bias;
  visit_places(rows, order, order.places_of(buckets), step, pass, w, begin_bucket, moved);
  return pass;
}

} // namespace bridle
