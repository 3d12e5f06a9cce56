// What steps know of each row beside its entries.
#pragma once

#include <cmath>
#include <cstdint>

namespace bridle {

// signed_cost: y_i C_i, whose sign is the label. squared_norms: with the constant feature, where
// the bias has one. targets: t_i, of losses of w.x_i + b - t_i; none for those of y_i (w.x_i + b).
struct RowSides {
  const double *signed_cost, *squared_norms, *targets = nullptr;

  double label(int64_t i) const { return std::copysign(1.0, signed_cost[i]); }
  double cost(int64_t i) const { return std::abs(signed_cost[i]); }
  double target(int64_t i) const { return targets ? targets[i] : 0.0; }
};

} // namespace bridle
