// One row's step, and the visit of some buckets of rows by such steps.
#pragma once

#include "linear/dcd/active.hpp"
#include "linear/dcd/buckets.hpp"
#include "linear/dcd/state.hpp"
#include "losses.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace bridle {

// How often a step counts, since others are stepping at the same time (sigma' of CoCoA+): the same
// for every feature.
template <class W> struct EvenCaution {
  W times = 1;

  template <RowsLike Rows> W norm(ActiveRow<W> &row, const Rows &) const {
    return row.squared_norm;
  }
  template <RowsLike Rows> void push(const Rows &view, int64_t at, W delta, W *w) const {
    view.add(at, times * delta, w);
  }
};

// The step of a row: exact, with the others held, and inside the box.
template <RowsLike Rows, LossLike Loss, class Caution> struct RowStep {
  using W = typename Rows::Value;
  using Pass = DcdPass<W>;

  Rows view;
  Caution caution;
  W response, shrink_beyond; // db / d beta; see ActiveRows

  // False: the row rests at its bound, and is worth no more visits.
  bool visit(ActiveRow<W> &row, Pass &pass, W *w) const {
    const W y = row.label(), cost = row.cost();
    const W upper = Loss::upper(cost), curvature = Loss::curvature(cost);
    const W score = view.dot(row.at, w);
    const W p = y * (pass.scale * score + pass.bias);
    const W gradient = p - W(Loss::target) + row.alpha * curvature;
    pass.gap += Loss::gap(p, row.alpha, cost);

    W projected = gradient;
    if (row.alpha <= 0) {
      if (gradient > shrink_beyond)
        return false;
      projected = std::min(gradient, W(0));
    } else if (row.alpha >= upper) {
      if (gradient < -shrink_beyond)
        return false;
      projected = std::max(gradient, W(0));
    }
    if (projected != 0) {
      pass.gradients += static_cast<double>(projected) * projected;
      ++pass.moved;
      const W squared_norm = caution.norm(row, view);
      step(row, pass, w, y, score, gradient, upper, squared_norm,
           pass.scale * caution.times * (squared_norm + response) + curvature);
    }
    pass.inside += row.alpha > 0 && row.alpha < upper;
    return true;
  }

private:
  void step(ActiveRow<W> &row, Pass &pass, W *w, W y, W score, W gradient, W upper, W squared_norm,
            W denominator) const {
    // A row of zeros has no say in w: its dual variable goes straight to its bound, if it has one.
    const W bound = upper < std::numeric_limits<W>::infinity() ? upper : row.alpha;
    const W target = denominator > 0 ? row.alpha - gradient / denominator : bound;
    const W next = std::clamp(target, W(0), upper);
    const W delta = (next - row.alpha) * y;
    if (delta == 0)
      return;
    const W cost = row.cost();
    pass.curved += static_cast<double>(Loss::curvature(cost) * delta * delta);
    pass.separable += separable_dual<Loss>(next, cost) - separable_dual<Loss>(row.alpha, cost);
    pass.squared += static_cast<double>(delta * (2 * score + delta * squared_norm));
    row.alpha = next;
    caution.push(view, row.at, delta, w);
    pass.bias += pass.scale * caution.times * response * delta;
    pass.balance += static_cast<double>(delta);
  }
};

// Visits the rows of these buckets. Before each bucket b: begin_bucket(pass, b). After a row's
// alpha has moved: moved(its number among the active, alpha before).
template <Shrinkable Active, class Step, class W, class Begin, class Moved>
DcdPass<W> visit_buckets(Active &rows, const Buckets &order, Range buckets, const Step &step,
                         W bias, W *w, Begin &&begin_bucket, Moved &&moved) {
  constexpr int64_t rows_ahead = 4;
  const int64_t n_active = rows.size();
  DcdPass<W> pass;
  pass.bias = bias;
  for (int64_t b = buckets.begin; b < buckets.end; ++b) {
    begin_bucket(pass, b);
    const int64_t begin = order.first_row(b), end = order.end_row(b);
    const int64_t next = b + 1 < buckets.end ? order.first_row(b + 1) : end;
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
  return pass;
}

} // namespace bridle
