// The variables of a kernel machine's dual, and the exact work on a few of them.
//
// F_i = s_i - y_i, s_i = sum_j alpha_j y_j K_ij, is minus y_i times the gradient of D.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace bridle {

struct DualVariables {
  std::vector<double> a, f, y, cost; // alpha, F, labels, upper bounds

  int64_t size() const { return static_cast<int64_t>(a.size()); }
  void resize(size_t n) { a.resize(n), f.resize(n), y.resize(n), cost.resize(n); }

  bool can_rise(int64_t p) const { return a[p] < cost[p]; }
  bool can_fall(int64_t p) const { return a[p] > 0; }
  // Whether alpha_p y_p may go up, or down.
  bool in_up(int64_t p) const { return y[p] > 0 ? can_rise(p) : can_fall(p); }
  bool in_low(int64_t p) const { return y[p] > 0 ? can_fall(p) : can_rise(p); }
  // Room to move alpha y of p up, or down.
  double room_up(int64_t p) const { return y[p] > 0 ? cost[p] - a[p] : a[p]; }
  double room_down(int64_t p) const { return y[p] > 0 ? a[p] : cost[p] - a[p]; }

  // Without a free bias: minus the gradient of D, where the box lets the variable follow it.
  double projected(int64_t p) const {
    const double g = y[p] * f[p];
    return (g < 0 && can_rise(p)) || (g > 0 && can_fall(p)) ? g : 0;
  }

  // Moves alpha y of p by t; `whole` says that t is all the room there is: then exactly to the
  // bound.
  void move(int64_t p, double t, bool whole) {
    const bool rising = (t > 0) == (y[p] > 0);
    if (whole)
      a[p] = rising ? cost[p] : 0;
    else
      a[p] = std::clamp(a[p] + y[p] * t, 0.0, cost[p]);
  }
};

// Keeps the best few of many: a heap whose top is the worst of them.
class BestFew {
public:
  struct Candidate {
    double merit;
    int64_t position;
    bool operator<(const Candidate &other) const { // by merit; the earlier row wins a tie
      return merit != other.merit ? merit > other.merit : position < other.position;
    }
  };

  explicit BestFew(size_t limit) : limit_(limit) {}

  void offer(double merit, int64_t position) {
    const Candidate candidate{merit, position};
    if (best_.size() < limit_) {
      best_.push_back(candidate);
      std::push_heap(best_.begin(), best_.end());
    } else if (limit_ > 0 && candidate < best_.front()) {
      std::pop_heap(best_.begin(), best_.end());
      best_.back() = candidate;
      std::push_heap(best_.begin(), best_.end());
    }
  }

  const std::vector<Candidate> &all() const { return best_; } // in no order

private:
  size_t limit_;
  std::vector<Candidate> best_;
};

// The dual on a working set, the other variables held.
struct WorkingSet : DualVariables {
  static constexpr double tiny = 1e-12;

  std::vector<double> K; // q x q
  double dual = 0;
  double curvature = std::numeric_limits<double>::infinity(); // the least seen

  // WSS 2 on the set until its violation is a tenth of what it was.
  int64_t optimise_pairs() {
    const int64_t q = size();
    double goal = -1;
    int64_t step = 0;
    for (; step < 100 * q; ++step) {
      int64_t i = -1, j = -1;
      double low = -std::numeric_limits<double>::infinity();
      for (int64_t k = 0; k < q; ++k) {
        if (in_up(k) && (i < 0 || f[k] < f[i]))
          i = k;
        if (in_low(k))
          low = std::max(low, f[k]);
      }
      if (i < 0 || !(low > f[i]))
        break;
      const double violation = low - f[i];
      if (goal < 0)
        goal = 0.1 * violation;
      else if (violation <= goal)
        break;
      const double *ki = K.data() + i * q;
      double best = 0;
      for (int64_t k = 0; k < q; ++k) {
        const double difference = f[k] - f[i];
        if (!(difference > 0) || !in_low(k))
          continue;
        const double eta = std::max(ki[i] + K[k * q + k] - 2 * ki[k], tiny);
        if (difference * difference / eta > best) {
          best = difference * difference / eta;
          j = k;
        }
      }
      if (j < 0) // differences whose squares underflow, or that are no numbers
        break;
      const double *kj = K.data() + j * q;
      const double eta = safe_curvature(ki[i] + kj[j] - 2 * ki[j], ki[i] + kj[j]);
      const double difference = f[j] - f[i];
      const double room_i = room_up(i), room_j = room_down(j);
      const double t = std::min({difference / eta, room_i, room_j});
      if (!std::isfinite(t))
        break;
      move(i, t, t >= room_i);
      move(j, -t, t >= room_j);
      dual += t * difference - 0.5 * t * t * eta;
      for (int64_t k = 0; k < q; ++k)
        f[k] += t * (ki[k] - kj[k]);
    }
    return step;
  }

  // Without the equality: the single variable that raises D the most.
  int64_t optimise_singles() {
    const int64_t q = size();
    double goal = -1;
    int64_t step = 0;
    for (; step < 100 * q; ++step) {
      int64_t i = -1;
      double best = 0, worst = 0;
      for (int64_t k = 0; k < q; ++k) {
        const int64_t p = k;
        const double g = y[p] * f[k];
        if (!((g < 0 && can_rise(p)) || (g > 0 && can_fall(p))))
          continue;
        worst = std::max(worst, std::abs(g));
        const double merit = g * g / std::max(K[k * q + k], tiny);
        if (merit > best) {
          best = merit;
          i = k;
        }
      }
      if (i < 0)
        break;
      if (goal < 0)
        goal = 0.1 * worst;
      else if (worst <= goal)
        break;
      const double *ki = K.data() + i * q;
      const double eta = safe_curvature(ki[i], std::abs(ki[i]));
      const double direction = -f[i]; // of alpha y
      const double room = direction > 0 ? room_up(i) : room_down(i);
      const double t = std::min(std::abs(direction) / eta, room);
      if (!std::isfinite(t))
        break;
      move(i, std::copysign(t, direction), t >= room);
      dual += t * std::abs(direction) - 0.5 * t * t * eta;
      for (int64_t k = 0; k < q; ++k)
        f[k] += std::copysign(t, direction) * ki[k];
    }
    return step;
  }

private:
  double safe_curvature(double value, double scale) {
    curvature = std::min(curvature, value / std::max(scale, tiny));
    return std::max(value, tiny);
  }
};

} // namespace bridle
