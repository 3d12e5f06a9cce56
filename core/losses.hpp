// The losses that the compiled steps know, as functions of the margin p of a row and of its cost C:
// p = y (w.x + b) of a row with a label, p = w.x + b - t of a row with a target t. In the dual,
//
//   max_alpha  sum_i [dual(alpha_i, C_i) + t_i alpha_i] - 1/2 |w(alpha)|^2,
//   lower(C_i) <= alpha_i <= upper(C_i),   dual(alpha, C) = min_p C loss(p) + alpha p.
#pragma once

#include "base/named.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace bridle {

// The slopes of minus the dual on both sides of alpha: 0 lies between them where alpha is best.
// Below the box and above it they are infinite.
template <class W> struct DualSlopes {
  W below, above;
};

template <class L>
concept LossLike = requires(const L &loss, double p, double alpha, double q, double cost) {
  { L::name } -> std::convertible_to<std::string_view>;
  { L::bounded_slope } -> std::convertible_to<bool>; // else long steps are cut short
  { L::rests } -> std::convertible_to<bool>;         // whether dual variables come to rest
  { loss.target } -> std::convertible_to<double>; // the margin at which, or from which on, it is 0
  { loss.lower(cost) } -> std::same_as<double>;
  { loss.upper(cost) } -> std::same_as<double>;
  { loss.value(p) } -> std::same_as<double>;
  // -d loss / d p: what a subgradient step adds of z_i, before the rate.
  { loss.slope(p) } -> std::same_as<double>;
  { loss.dual(alpha, cost) } -> std::same_as<double>;
  // How much of minus the second derivative of `dual` is the same for every alpha.
  { loss.curvature(cost) } -> std::same_as<double>;
  { loss.slopes(p, alpha, cost) } -> std::same_as<DualSlopes<double>>;
  // This row's part of P - D when w = w(alpha); never negative inside the box.
  { loss.gap(p, alpha, cost) } -> std::same_as<double>;
  // The best alpha of a row of this squared length, the other rows held.
  { loss.best(p, alpha, q, cost) } -> std::same_as<double>;
};

// Losses whose dual is target alpha - curvature(C)/2 alpha^2: one kink at most, at 0.
template <class L> struct QuadraticDual {
  static constexpr bool rests = true;

  template <class W> W lower(W) const { return 0; }
  template <class W> W dual(W alpha, W cost) const {
    return W(L::target) * alpha - W(0.5) * self().curvature(cost) * alpha * alpha;
  }
  template <class W> DualSlopes<W> slopes(W p, W alpha, W cost) const {
    constexpr W infinity = std::numeric_limits<W>::infinity();
    const W slope = p - W(L::target) + alpha * self().curvature(cost);
    return {alpha <= 0 ? -infinity : slope, alpha >= self().upper(cost) ? infinity : slope};
  }
  template <class W> W best(W p, W alpha, W q, W cost) const {
    const W curvature = self().curvature(cost), upper = self().upper(cost);
    const W slope = p - W(L::target) + alpha * curvature, denominator = q + curvature;
    if (denominator > 0)
      return std::clamp(alpha - slope / denominator, W(0), upper);
    // A row of zeros has no say in w: its dual variable goes straight to its bound, if it has one.
    return slope > 0 ? W(0) : upper < std::numeric_limits<W>::infinity() ? upper : alpha;
  }

private:
  const L &self() const { return static_cast<const L &>(*this); }
};

// max(0, 1 - p)
struct Hinge : QuadraticDual<Hinge> {
  static constexpr std::string_view name = "hinge";
  static constexpr double target = 1;
  static constexpr bool bounded_slope = true;
  template <class W> W upper(W cost) const { return cost; }
  template <class W> W curvature(W) const { return 0; }
  template <class W> W slope(W p) const { return p < W(1) ? W(1) : W(0); }
  template <class W> W value(W p) const { return std::max(W(0), W(1) - p); }
  template <class W> W gap(W p, W alpha, W cost) const {
    const W slack = W(1) - p;
    // An infinite cost (the hard margin) has no part in the sum while the constraint holds.
    const W loss = slack > 0 ? cost * slack : W(0);
    return loss - alpha * slack;
  }
};

// max(0, 1 - p)^2
struct SquaredHinge : QuadraticDual<SquaredHinge> {
  static constexpr std::string_view name = "squared_hinge";
  static constexpr double target = 1;
  static constexpr bool bounded_slope = false;
  template <class W> W upper(W) const { return std::numeric_limits<W>::infinity(); }
  template <class W> W curvature(W cost) const { return W(0.5) / cost; }
  template <class W> W slope(W p) const { return p < W(1) ? 2 * (W(1) - p) : W(0); }
  template <class W> W value(W p) const {
    const W slack = std::max(W(0), W(1) - p);
    return slack * slack;
  }
  template <class W> W gap(W p, W alpha, W cost) const {
    const W slack = W(1) - p;
    const W loss = slack > 0 ? cost * slack * slack : W(0);
    return loss - alpha * slack + alpha * alpha / (4 * cost);
  }
};

// max(0, -p): the perceptron's. A hinge at 0; at the kink it steps, or it would never leave w = 0.
struct PerceptronLoss : QuadraticDual<PerceptronLoss> {
  static constexpr std::string_view name = "perceptron";
  static constexpr double target = 0;
  static constexpr bool bounded_slope = true;
  template <class W> W upper(W cost) const { return cost; }
  template <class W> W curvature(W) const { return 0; }
  template <class W> W slope(W p) const { return p <= W(0) ? W(1) : W(0); }
  template <class W> W value(W p) const { return std::max(W(0), -p); }
  template <class W> W gap(W p, W alpha, W cost) const {
    const W loss = p < 0 ? -cost * p : W(0);
    return loss + alpha * p;
  }
};

// log(1 + exp(-p)). Its dual, C times the entropy of alpha/C, is steep at both ends of the box: no
// variable rests there (Yu, Huang & Lin, "Dual coordinate descent methods for logistic regression
// and maximum entropy models", Machine Learning 2011).
struct Logistic {
  static constexpr std::string_view name = "logistic";
  static constexpr double target = 0; // which its margins never reach
  static constexpr bool bounded_slope = true, rests = false;
  template <class W> W lower(W) const { return 0; }
  template <class W> W upper(W cost) const { return cost; }
  template <class W> W curvature(W) const { return 0; }
  template <class W> W slope(W p) const { return W(1) / (W(1) + std::exp(p)); }
  template <class W> W value(W p) const {
    return std::max(W(0), -p) + std::log1p(std::exp(-std::abs(p)));
  }
  template <class W> W dual(W alpha, W cost) const {
    return -(entropy_term(alpha, cost) + entropy_term(cost - alpha, cost));
  }
  template <class W> DualSlopes<W> slopes(W p, W alpha, W cost) const {
    const W slope = p + std::log(alpha / (cost - alpha));
    return {slope, slope};
  }
  template <class W> W gap(W p, W alpha, W cost) const {
    return std::max(W(0), cost * value(p) + alpha * p - dual(alpha, cost));
  }

  // Newton's method on  s + p + q (C / (1 + exp(-s)) - alpha) = 0,  alpha = C / (1 + exp(-s)): the
  // slope in s is between 1 and 1 + q C / 4. A step out of what is known of the root is halved.
  template <class W> W best(W p, W alpha, W q, W cost) const {
    W low = -p - q * (cost - alpha), high = -p + q * alpha;
    const bool inside = alpha > 0 && alpha < cost;
    W s = inside ? std::log(alpha / (cost - alpha)) : std::clamp(W(0), low, high);
    W part = inside ? alpha / cost : sigmoid(s), first = 0;
    for (int k = 0; k < 10; ++k) {
      const W off = s + p + q * (cost * part - alpha);
      if (off >= 0)
        high = std::min(high, s);
      if (off <= 0)
        low = std::max(low, s);
      const W next = s - off / (W(1) + q * cost * part * (W(1) - part));
      s = next >= low && next <= high ? next : W(0.5) * (low + high);
      part = sigmoid(s);
      if (k == 0)
        first = std::abs(off);
      else if (std::abs(off) <= W(0.05) * first)
        break;
    }
    return cost * part;
  }

private:
  template <class W> static W sigmoid(W s) { return W(1) / (W(1) + std::exp(-s)); }
  template <class W> static W entropy_term(W a, W cost) {
    return a > 0 ? a * std::log(a / cost) : W(0);
  }
};

// All losses that are linear or quadratic between their kinks: with r = target - p,
//
//   loss(p) = max_a  r a - tube |a| - curve/2 a^2,   low <= a <= high,
//
// the dual variable being C a. tube: how far r may be from 0 at no cost. curve: 0 for kinks.
struct PiecewiseQuadratic {
  static constexpr std::string_view name = "piecewise_quadratic";
  static constexpr bool bounded_slope = false, rests = true;
  double target = 0, low = -1, high = 1, tube = 0, curve = 0;

  static PiecewiseQuadratic of(const std::vector<double> &numbers) {
    if (numbers.size() != 5)
      throw std::invalid_argument("a piecewise quadratic loss has five numbers");
    const PiecewiseQuadratic made{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
    if (!(made.low <= 0 && made.high >= 0 && made.tube >= 0 && made.curve >= 0) ||
        !std::isfinite(made.target + made.tube + made.curve) ||
        (made.curve == 0 && !std::isfinite(made.high - made.low)))
      throw std::invalid_argument("these are no numbers of a piecewise quadratic loss");
    return made;
  }

  template <class W> W lower(W cost) const { return W(low) * cost; }
  template <class W> W upper(W cost) const { return W(high) * cost; }
  template <class W> W curvature(W cost) const { return curve > 0 ? W(curve) / cost : W(0); }
  template <class W> W slope(W p) const {
    const W r = W(target) - p, beyond = soft(r, W(tube));
    if (curve > 0)
      return std::clamp(beyond / W(curve), W(low), W(high));
    return beyond > 0 ? W(high) : beyond < 0 ? W(low) : W(0);
  }
  template <class W> W value(W p) const {
    const W a = slope(p);
    return (W(target) - p) * a - W(tube) * std::abs(a) - W(0.5 * curve) * a * a;
  }
  template <class W> W dual(W alpha, W cost) const {
    return W(target) * alpha - W(tube) * std::abs(alpha) - W(0.5) * curvature(cost) * alpha * alpha;
  }
  template <class W> DualSlopes<W> slopes(W p, W alpha, W cost) const {
    constexpr W infinity = std::numeric_limits<W>::infinity();
    const W slope = p - W(target) + alpha * curvature(cost);
    return {alpha <= lower(cost) ? -infinity : slope + (alpha > 0 ? W(tube) : -W(tube)),
            alpha >= upper(cost) ? infinity : slope + (alpha >= 0 ? W(tube) : -W(tube))};
  }
  template <class W> W gap(W p, W alpha, W cost) const {
    return cost * value(p) + alpha * p - dual(alpha, cost);
  }
  template <class W> W best(W p, W alpha, W q, W cost) const {
    const W curvature = this->curvature(cost), denominator = q + curvature;
    const W slope = p - W(target) + alpha * curvature;
    if (denominator > 0)
      return std::clamp(soft(alpha - slope / denominator, W(tube) / denominator), lower(cost),
                        upper(cost));
    // A row of zeros goes straight to a bound: there is one, where there is no curve.
    const W beyond = soft(-slope, W(tube));
    return beyond > 0 ? upper(cost) : beyond < 0 ? lower(cost) : alpha;
  }

private:
  // r moved towards 0 by this much.
  template <class W> static W soft(W r, W by) { return r > by ? r - by : r < -by ? r + by : W(0); }
};

// A step no longer than the furthest that makes sense, which has the same direction.
inline double limited(double step, double furthest) {
  return step > 0 ? std::min(step, std::max(0.0, furthest))
                  : std::max(step, std::min(0.0, furthest));
}

template <LossLike... L> using LossList = Named<L...>;

// To add a loss: a struct like those above, and its name here.
using Losses = LossList<Hinge, SquaredHinge, PerceptronLoss, Logistic, PiecewiseQuadratic>;
using AnyLoss = Losses::Any;

inline AnyLoss loss_from_name(std::string_view name, const std::vector<double> &numbers = {}) {
  AnyLoss loss = Losses::make("loss", name);
  if (auto *own = std::get_if<PiecewiseQuadratic>(&loss); own && !numbers.empty())
    *own = PiecewiseQuadratic::of(numbers);
  else if (!numbers.empty())
    throw std::invalid_argument("the loss " + std::string(name) + " has no numbers");
  return loss;
}

// What a step asks of its loss, for steps whose price is the row's: the loss is asked for each
// time, and nothing else is compiled for it.
class AnySlope {
public:
  explicit AnySlope(const AnyLoss &loss) : loss_(loss) {
    std::visit(
        [this](const auto &l) {
          bounded = l.bounded_slope;
          target = l.target;
        },
        loss);
  }

  double at(double p) const {
    return std::visit([p](const auto &l) { return l.slope(p); }, loss_);
  }

  bool bounded;  // else long steps are cut short
  double target; // the margin at which, or from which on, the loss is 0

private:
  AnyLoss loss_;
};

} // namespace bridle
