// One row's steps for as many classes as have a lane.
#pragma once

#include "rows/lanes.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace bridle {

using LaneMask = uint32_t; // a bit for each lane
using StoredMask = uint16_t;
inline StoredMask stored(LaneMask mask) { return static_cast<StoredMask>(mask); }

// What is the same for all classes of a row.
template <class W> struct ClassRow {
  W squared_norm; // without the constant feature
  W cost;
  int32_t code; // its class
};

// What visits see and do, lane by lane; see DcdPass.
template <class W, int n, class Sum> struct LaneSums {
  alignas(64) Sum gap[n] = {}, balance[n] = {}, separable[n] = {}, squared[n] = {};
  alignas(64) Sum gradients[n] = {}, moved[n] = {}, inside[n] = {}, visits[n] = {};

  template <class Other> void add(const LaneSums<W, n, Other> &o) {
    for (int k = 0; k < n; ++k) {
      gap[k] += o.gap[k];
      balance[k] += o.balance[k];
      separable[k] += o.separable[k];
      squared[k] += o.squared[k];
      gradients[k] += o.gradients[k];
      moved[k] += o.moved[k];
      inside[k] += o.inside[k];
      visits[k] += o.visits[k];
    }
  }
};

// The hinge or its square of a row: the formulas of losses.hpp, with the choice in numbers of the
// row and a blend, so that lanes are compiled once for both.
template <class W> struct LaneLoss {
  bool squared;
  W cost, upper, curvature;

  LaneLoss(bool squared_, W cost_)
      : squared(squared_), cost(cost_), upper(squared ? std::numeric_limits<W>::infinity() : cost),
        curvature(squared ? W(0.5) / cost : W(0)) {}

  W gap(W p, W alpha) const {
    const W slack = W(1) - p;
    const W loss = slack > 0 ? cost * slack * (squared ? slack : W(1)) : W(0);
    return loss - alpha * slack + W(0.5) * curvature * alpha * alpha;
  }
};

// What a lane's step depends on beside the row.
template <class W, int n> struct LaneSettings {
  bool squared;
  W scale = 1; // m/t of the first epoch
  alignas(64) W bias[n] = {}, response[n] = {}, shrink_beyond[n] = {};
};

// What became of a row: the lanes that rest at a bound, and are worth no more visits, and those
// that have stepped.
struct LanesVisited {
  LaneMask resting, moved;
};

// The steps of all lanes of one row, each exact with the other rows held: the lanes' RowStep.
template <class W, int N>
[[gnu::always_inline]] inline LanesVisited
step_lanes(const ClassRow<W> &row, int own, LaneMask active, const W *score, W *alpha, W *delta,
           LaneSettings<W, N> &settings, LaneSums<W, N, W> &sums) {
  const LaneLoss<W> loss(settings.squared, row.cost);
  const W upper = loss.upper, curvature = loss.curvature;
  const W scale = settings.scale, norm = row.squared_norm;
  LaneMask resting = 0, moved = 0;
#pragma omp simd reduction(| : resting, moved)
  for (int k = 0; k < N; ++k) {
    const bool on = (active >> k) & 1;
    const W y = k == own ? W(1) : W(-1);
    const W a = alpha[k], response = settings.response[k], beyond = settings.shrink_beyond[k];
    const W p = y * (scale * score[k] + settings.bias[k]);
    const W gradient = p - W(1) + a * curvature;
    const bool low = a <= 0, high = a >= upper;
    const bool rests = on & ((low & (gradient > beyond)) | (high & (gradient < -beyond)));
    const W projected = low ? std::min(gradient, W(0)) : high ? std::max(gradient, W(0)) : gradient;
    const bool moves = on & !rests & (projected != 0);
    const W denominator = scale * (norm + response) + curvature;
    // A row of zeros has no say in w: its dual variable goes straight to its bound, if it has one.
    const W bound = upper < std::numeric_limits<W>::infinity() ? upper : a;
    const W target = denominator > 0 ? a - gradient / denominator : bound;
    const W next = moves ? std::min(std::max(target, W(0)), upper) : a;
    const W change = next - a, step = change * y;
    const W gap = loss.gap(p, a);
    sums.visits[k] += on ? W(1) : W(0);
    sums.gap[k] += on ? gap : W(0);
    sums.gradients[k] += moves ? projected * projected : W(0);
    sums.moved[k] += moves ? W(1) : W(0);
    sums.inside[k] += (on & !rests & (next > 0) & (next < upper)) ? W(1) : W(0);
    sums.separable[k] += change * (W(1) - W(0.5) * curvature * (next + a));
    sums.squared[k] += step * (2 * score[k] + step * norm);
    sums.balance[k] += step;
    settings.bias[k] += scale * response * step;
    alpha[k] = next;
    delta[k] = step;
    resting |= static_cast<LaneMask>(rests) << k;
    moved |= static_cast<LaneMask>(step != 0) << k;
  }
  return {resting, moved};
}

} // namespace bridle
