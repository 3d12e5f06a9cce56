// The dual point as numbers: w, the bias and the parts of D(alpha); what a pass over rows adds to
// them; and how the first epoch from zero scales them.
#pragma once

#include "base/memory.hpp"
#include "linear/proximal_bias.hpp"
#include "losses.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace bridle {

// A row's part of the dual but for 1/2 |w|^2.
template <LossLike Loss, class W>
double separable_dual(const Loss &loss, W alpha, W cost, W target) {
  return loss.dual(static_cast<double>(alpha), static_cast<double>(cost)) +
         static_cast<double>(alpha) * static_cast<double>(target);
}

// What a pass over some rows saw and did.
template <class W> struct DcdPass {
  W bias = 0, scale = 1;             // b and m/t as the present row sees them
  double gap = 0, balance = 0;       // the gap seen; the changes of the dual's parts:
  double separable = 0, squared = 0; // sum alpha y, sum alpha [- ...], |w|^2
  double curved = 0;                 // sum D_ii d_alpha_i^2
  double gradients = 0;              // sum of squares of the projected gradients
  int64_t moved = 0;                 // how many of those are not zero
  int64_t inside = 0;                // rows strictly between their bounds

  DcdPass then(const DcdPass &next) const {
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

  // A gradient that points out of the box by more than this is worth no more visits.
  W shrink_bound(double times = 1) const {
    if (moved == 0)
      return std::numeric_limits<W>::infinity();
    return static_cast<W>(times * std::sqrt(gradients / static_cast<double>(moved)));
  }
};

// The first epoch from zero is one of stochastic gradients in the dual. Of t rows seen out of m,
// the problem of those alone with costs m/t C_i stands for the whole, and its weights are m/t v,
// where v = sum alpha_i z_i: each new row takes the step of that problem, with its costs, divided
// by m/t. So alpha_i is in its box all the time, and v = w(alpha) at the end. Without this the
// first rows all go to C_i, since w = 0 when they are seen, and it takes two more epochs to undo
// that.
//
// m/t is (m + t0)/(t + t0): few rows say little, and where costs are large, so that rows seldom
// reach them, even many say little of how far the others go (measured on texts, C from 0.005 to
// 100).
struct FirstEpoch {
  int64_t rows_in_all;
  double rows_before;
  int64_t rows_seen = 0; // in parts of the rows that came earlier

  // None where the costs leave nothing to scale.
  static std::optional<FirstEpoch> of(int64_t n_rows, double mean_cost, double mean_norm) {
    const double before = 2 * mean_cost * mean_norm * static_cast<double>(n_rows);
    if (std::isfinite(before) && before > 0)
      return FirstEpoch{n_rows, before};
    return std::nullopt;
  }

  double scale_after(int64_t seen) const {
    return (static_cast<double>(rows_in_all) + rows_before) /
           (static_cast<double>(seen) + rows_before);
  }

  template <class W>
  void set_scale(DcdPass<W> &pass, const ProximalBias &bias, int64_t seen) const {
    const double scale = scale_after(seen);
    pass.scale = static_cast<W>(scale);
    pass.bias = static_cast<W>(bias.value(scale, pass.balance));
    // What the rows pay as they come estimates the loss; w was not much to go by at first.
    if (2 * seen < rows_in_all)
      pass.gap = 0;
  }
};

template <class W> struct DcdState {
  LargeVector<W> w;
  ProximalBias bias;
  double mean_norm, mean_cost; // of the rows, without the constant feature
  double separable = 0, squared_weights = 0;
  std::optional<FirstEpoch> first = std::nullopt;
  W shrink_beyond = std::numeric_limits<W>::infinity();

  double dual() const { return separable - 0.5 * squared_weights + bias.dual(); }
  double sigma(int64_t n_inside) const { return proximal_sigma(mean_norm, mean_cost, n_inside); }

  // The changes of a pass become part of the state.
  void take(const DcdPass<W> &pass) {
    bias.add(pass.balance);
    separable += pass.separable;
    squared_weights += pass.squared;
  }

  // |w|^2 follows from the steps; this removes what rounding has added.
  void sum_squares() {
    squared_weights = 0;
    for (const W wk : w)
      squared_weights += static_cast<double>(wk) * wk;
  }

  // P - D after the first epoch, from what the second half of the rows paid when they were seen;
  // with a bias, which is still on its way, no more is known than that.
  double first_gap(const DcdPass<W> &pass) const {
    const double loss = 2 * pass.gap;
    return bias.present() ? loss : std::max(0.0, loss + 0.5 * squared_weights - dual());
  }

  // shrink_more: how many times the mean motion a gradient must be out of the box.
  void end_epoch(const DcdPass<W> &pass, double shrink_more = 1) {
    bias.recentre(sigma(pass.inside));
    shrink_beyond = pass.shrink_bound(shrink_more);
  }
};

} // namespace bridle
