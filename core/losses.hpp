// The losses that the dual kernels know, as functions of the margin p = y (w.x + b) and of the
// row's cost C. In the dual, minimise 1/2 |w(alpha)|^2 - target sum alpha + 1/2 sum curvature(C)
// alpha^2 over 0 <= alpha <= upper(C), where target is the margin from which on the loss is 0.
#pragma once

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <variant>

namespace bridle {

// max(0, 1 - p)
struct Hinge {
  static constexpr double target = 1;
  static constexpr bool bounded_slope = true;
  template <class W> static W upper(W cost) { return cost; }
  template <class W> static W curvature(W) { return 0; }
  // -d loss / d p: what a subgradient step adds of z_i, before the rate.
  template <class W> static W slope(W p) { return p < W(1) ? W(1) : W(0); }
  template <class W> static W value(W p) { return std::max(W(0), W(1) - p); }
  // This row's part of P - D when w = w(alpha); never negative inside the box.
  template <class W> static W gap(W p, W alpha, W cost) {
    const W slack = W(1) - p;
    // An infinite cost (the hard margin) has no part in the sum while the constraint holds.
    const W loss = slack > 0 ? cost * slack : W(0);
    return loss - alpha * slack;
  }
};

// max(0, 1 - p)^2
struct SquaredHinge {
  static constexpr double target = 1;
  static constexpr bool bounded_slope = false;
  template <class W> static W upper(W) { return std::numeric_limits<W>::infinity(); }
  template <class W> static W curvature(W cost) { return W(0.5) / cost; }
  template <class W> static W slope(W p) { return p < W(1) ? 2 * (W(1) - p) : W(0); }
  template <class W> static W value(W p) {
    const W slack = std::max(W(0), W(1) - p);
    return slack * slack;
  }
  template <class W> static W gap(W p, W alpha, W cost) {
    const W slack = W(1) - p;
    const W loss = slack > 0 ? cost * slack * slack : W(0);
    return loss - alpha * slack + alpha * alpha / (4 * cost);
  }
};

// max(0, -p): the perceptron's. A hinge at 0; at the kink it steps, or it would never leave w = 0.
struct PerceptronLoss {
  static constexpr double target = 0;
  static constexpr bool bounded_slope = true;
  template <class W> static W upper(W cost) { return cost; }
  template <class W> static W curvature(W) { return 0; }
  template <class W> static W slope(W p) { return p <= W(0) ? W(1) : W(0); }
  template <class W> static W value(W p) { return std::max(W(0), -p); }
  template <class W> static W gap(W p, W alpha, W cost) {
    const W loss = p < 0 ? -cost * p : W(0);
    return loss + alpha * p;
  }
};

using AnyLoss = std::variant<Hinge, SquaredHinge, PerceptronLoss>;

inline AnyLoss loss_from_name(std::string_view name) {
  if (name == "hinge")
    return Hinge{};
  if (name == "squared_hinge")
    return SquaredHinge{};
  if (name == "perceptron")
    return PerceptronLoss{};
  throw std::invalid_argument("unknown loss: " + std::string(name));
}

} // namespace bridle
