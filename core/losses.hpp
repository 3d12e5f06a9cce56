// The losses that the compiled steps know, as functions of the margin p = y (w.x + b) and of the
// row's cost C. In the dual, minimise 1/2 |w(alpha)|^2 - target sum alpha + 1/2 sum curvature(C)
// alpha^2 over 0 <= alpha <= upper(C), where target is the margin from which on the loss is 0.
#pragma once

#include "base/named.hpp"

#include <algorithm>
#include <concepts>
#include <limits>
#include <string_view>

namespace bridle {

template <class L>
concept LossLike = requires(double p, double alpha, double cost) {
  { L::name } -> std::convertible_to<std::string_view>;
  { L::target } -> std::convertible_to<double>;
  { L::bounded_slope } -> std::convertible_to<bool>; // else long steps are cut short
  { L::upper(cost) } -> std::same_as<double>;
  { L::curvature(cost) } -> std::same_as<double>;
  { L::value(p) } -> std::same_as<double>;
  // -d loss / d p: what a subgradient step adds of z_i, before the rate.
  { L::slope(p) } -> std::same_as<double>;
  // This row's part of P - D when w = w(alpha); never negative inside the box.
  { L::gap(p, alpha, cost) } -> std::same_as<double>;
};

// max(0, 1 - p)
struct Hinge {
  static constexpr std::string_view name = "hinge";
  static constexpr double target = 1;
  static constexpr bool bounded_slope = true;
  template <class W> static W upper(W cost) { return cost; }
  template <class W> static W curvature(W) { return 0; }
  template <class W> static W slope(W p) { return p < W(1) ? W(1) : W(0); }
  template <class W> static W value(W p) { return std::max(W(0), W(1) - p); }
  template <class W> static W gap(W p, W alpha, W cost) {
    const W slack = W(1) - p;
    // An infinite cost (the hard margin) has no part in the sum while the constraint holds.
    const W loss = slack > 0 ? cost * slack : W(0);
    return loss - alpha * slack;
  }
};

// max(0, 1 - p)^2
struct SquaredHinge {
  static constexpr std::string_view name = "squared_hinge";
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
  static constexpr std::string_view name = "perceptron";
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

template <LossLike... L> using LossList = Named<L...>;

// To add a loss: a struct like those above, and its name here.
using Losses = LossList<Hinge, SquaredHinge, PerceptronLoss>;
using AnyLoss = Losses::Any;

inline AnyLoss loss_from_name(std::string_view name) { return Losses::make("loss", name); }

} // namespace bridle
