// The variables of a kernel machine's dual, and the exact work on a few of them.
//
// F_i = s_i + ridge_i beta_i - p_i, s_i = sum_j beta_j K_ij, is minus the gradient of D but for its
// kinks: where beta_i rises from 0 or more the tube is added to it, where it falls from 0 or less
// subtracted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace bridle {

struct DualVariables {
  std::vector<double> beta, f, lower, upper;
  double tube = 0;

  int64_t size() const { return static_cast<int64_t>(beta.size()); }
  void resize(size_t n) { beta.resize(n), f.resize(n), lower.resize(n), upper.resize(n); }

  bool can_rise(int64_t p) const { return beta[p] < upper[p]; }
  bool can_fall(int64_t p) const { return beta[p] > lower[p]; }
  // Minus the slope of D where beta_p rises from where it is, and where it falls.
  double rising(int64_t p) const { return f[p] + (beta[p] >= 0 ? tube : -tube); }
  double falling(int64_t p) const { return f[p] + (beta[p] > 0 ? tube : -tube); }
  // Room to move, up to the bound or to the kink.
  double room_up(int64_t p) const { return ceiling(p) - beta[p]; }
  double room_down(int64_t p) const { return beta[p] - floor(p); }

  // Without an equality: minus the slope of D, where the variable may follow it.
  double projected(int64_t p) const {
    if (const double g = rising(p); g < 0 && can_rise(p))
      return g;
    const double g = falling(p);
    return g > 0 && can_fall(p) ? g : 0;
  }

  // Moves beta_p by t; `whole` says that t is all the room there is: then exactly to its end.
  void move(int64_t p, double t, bool whole) {
    if (whole)
      beta[p] = t > 0 ? ceiling(p) : floor(p);
    else
      beta[p] = std::clamp(beta[p] + t, lower[p], upper[p]);
  }

private:
  double ceiling(int64_t p) const { return tube > 0 && beta[p] < 0 ? 0 : upper[p]; }
  double floor(int64_t p) const { return tube > 0 && beta[p] > 0 ? 0 : lower[p]; }
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

  explicit BestFew(size_t limit = 0) : limit_(limit) {}

  void offer(double merit, int64_t position) {
    if (best_.size() < limit_) {
      best_.push_back({merit, position});
      std::push_heap(best_.begin(), best_.end());
    } else if (limit_ > 0 && Candidate{merit, position} < best_.front()) {
      std::pop_heap(best_.begin(), best_.end());
      best_.back() = {merit, position};
      std::push_heap(best_.begin(), best_.end());
    }
  }
  void restart(size_t limit) {
    limit_ = limit;
    best_.clear();
  }

  const std::vector<Candidate> &all() const { return best_; } // in no order

private:
  size_t limit_;
  std::vector<Candidate> best_;
};

// The dual on a working set, the other variables held.
struct WorkingSet : DualVariables {
  static constexpr double tiny = 1e-12;

  std::vector<double> K; // q x q, with the ridge on its diagonal
  double dual = 0;
  double curvature = std::numeric_limits<double>::infinity(); // the least seen

  // WSS 2 on the set until its violation is a tenth of what it was.
  int64_t optimise_pairs() {
    const int64_t q = size();
    double goal = -1;
    int64_t step = 0;
    for (; step < 100 * q; ++step) {
      const auto [i, least, most] = extremes();
      if (i < 0 || !(most > least))
        break;
      const double violation = most - least;
      if (goal < 0)
        goal = 0.1 * violation;
      else if (violation <= goal)
        break;
      const double *ki = K.data() + i * q;
      const int64_t j = partner(i, least);
      if (j < 0) // differences whose squares underflow, or that are no numbers
        break;
      const double *kj = K.data() + j * q;
      const double eta = safe_curvature(ki[i] + kj[j] - 2 * ki[j], ki[i] + kj[j]);
      const double difference = falling(j) - least;
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
        const double g = projected(k);
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
      const double slope = -projected(i);
      const double room = slope > 0 ? room_up(i) : room_down(i);
      const double t = std::min(std::abs(slope) / eta, room);
      if (!std::isfinite(t))
        break;
      move(i, std::copysign(t, slope), t >= room);
      dual += t * std::abs(slope) - 0.5 * t * t * eta;
      for (int64_t k = 0; k < q; ++k)
        f[k] += std::copysign(t, slope) * ki[k];
    }
    return step;
  }

private:
  struct Extremes {
    int64_t i; // of the least slope on the way up
    double least, most;
  };

  Extremes extremes() const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    Extremes found{-1, infinity, -infinity};
    for (int64_t k = 0; k < size(); ++k) {
      if (const double up = rising(k); can_rise(k) && (found.i < 0 || up < found.least))
        found.i = k, found.least = up;
      if (can_fall(k))
        found.most = std::max(found.most, falling(k));
    }
    return found;
  }

  // The variable to fall by what i rises, for the largest gain.
  int64_t partner(int64_t i, double least) const {
    const int64_t q = size();
    const double *ki = K.data() + i * q;
    int64_t j = -1;
    double best = 0;
    for (int64_t k = 0; k < q; ++k) {
      const double difference = falling(k) - least;
      if (!(difference > 0) || !can_fall(k))
        continue;
      const double eta = std::max(ki[i] + K[k * q + k] - 2 * ki[k], tiny);
      if (difference * difference > best * eta) {
        best = difference * difference / eta;
        j = k;
      }
    }
    return j;
  }

  double safe_curvature(double value, double scale) {
    curvature = std::min(curvature, value / std::max(scale, tiny));
    return std::max(value, tiny);
  }
};

} // namespace bridle
