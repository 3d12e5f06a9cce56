// The small quadratic programme of cutting-plane methods,
//
//   max_beta  R.beta - 1/2 beta' H beta,   beta >= 0,   sum_{c in group g} beta_c <= cap_g,
//
// H the Gram matrix of the cuts: positive semidefinite, often singular. The slack of a group is one
// more cut of zeros, so that each group is a simplex.
//
// Two moves alternate. Pair steps: the cut with the largest gradient takes weight from the one in
// its group that promises the largest gain, exactly (second-order selection: Fan, Chen & Lin,
// "Working set selection using second order information", JMLR 2005). Subspace steps: Newton's
// method on the cuts of positive weight, stopped at the first bound. The first finds out which cuts
// matter, the second makes their weights exact. Each raises the value; the gap
//
//   max over feasible beta' of gradient.(beta' - beta),   gradient = R - H beta,
//
// bounds what is missing from the optimum.
#pragma once

#include "linear/ridge_cholesky.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace bridle {

struct SimplexQpResult {
  double value;  // R.beta - 1/2 beta' H beta
  double gap;    // the optimum is at most value + gap
  int64_t steps; // pair steps and subspace steps
};

class SimplexQp {
public:
  // gram: row c begins at gram + c * stride. beta: the start, replaced by the solution; a start
  // that is not feasible is scaled until it is.
  SimplexQp(const double *gram, int64_t stride, const double *r, const int64_t *group,
            const double *caps, double *beta, int64_t n_cuts, int64_t n_groups)
      : gram_(gram), stride_(stride), r_(r), group_(group), caps_(caps), beta_(beta), n_(n_cuts),
        n_groups_(n_groups), slack_(n_groups), gradient_(n_cuts) {
    make_feasible();
  }

  // Until the gap is at most tolerance times the value, or rounding ends the progress.
  SimplexQpResult solve(double tolerance) {
    update_gradient();
    double best = std::numeric_limits<double>::infinity();
    int rounds_without_progress = 0;
    while (true) {
      const double value_now = value(), gap_now = gap();
      if (gap_now <= tolerance * std::abs(value_now) || gap_now == 0)
        return {value_now, gap_now, steps_};
      rounds_without_progress = gap_now < 0.9 * best ? 0 : rounds_without_progress + 1;
      best = std::min(best, gap_now);
      // The gap may rise now and then while the value rises, but not for ever.
      if (rounds_without_progress > 30)
        return {value_now, gap_now, steps_};
      for (int64_t k = 0; k < n_ + 10 && pair_step(); ++k)
        ++steps_;
      subspace_steps();
      update_gradient();
    }
  }

private:
  // Index n_ + g is the slack of group g.
  bool is_slack(int64_t c) const { return c >= n_; }
  int64_t group(int64_t c) const { return is_slack(c) ? c - n_ : group_[c]; }
  double weight(int64_t c) const { return is_slack(c) ? slack_[c - n_] : beta_[c]; }
  double gradient(int64_t c) const { return is_slack(c) ? 0 : gradient_[c]; }
  double gram(int64_t c, int64_t d) const {
    return is_slack(c) || is_slack(d) ? 0 : gram_[c * stride_ + d];
  }

  void make_feasible() {
    std::vector<double> sum(n_groups_);
    for (int64_t c = 0; c < n_; ++c) {
      beta_[c] = std::max(beta_[c], 0.0);
      sum[group_[c]] += beta_[c];
    }
    for (int64_t c = 0; c < n_; ++c)
      if (sum[group_[c]] > caps_[group_[c]])
        beta_[c] *= caps_[group_[c]] / sum[group_[c]];
    for (int64_t g = 0; g < n_groups_; ++g)
      slack_[g] = std::max(0.0, caps_[g] - sum[g]);
  }

  void update_gradient() {
    std::copy(r_, r_ + n_, gradient_.begin());
    for (int64_t c = 0; c < n_; ++c)
      if (beta_[c] > 0)
        add_to_gradient(c, -beta_[c]);
  }

  void add_to_gradient(int64_t c, double scale) {
    if (is_slack(c))
      return;
    const double *row = gram_ + c * stride_;
#pragma omp simd
    for (int64_t d = 0; d < n_; ++d)
      gradient_[d] += scale * row[d];
  }

  double value() const {
    double sum = 0; // R.beta - 1/2 beta' H beta = 1/2 beta.(R + gradient)
    for (int64_t c = 0; c < n_; ++c)
      sum += beta_[c] * (r_[c] + gradient_[c]);
    return 0.5 * sum;
  }

  double gap() const {
    std::vector<double> largest(n_groups_, 0.0); // the slack's gradient is 0
    double sum = 0;
    for (int64_t c = 0; c < n_; ++c) {
      largest[group_[c]] = std::max(largest[group_[c]], gradient_[c]);
      sum -= beta_[c] * gradient_[c];
    }
    for (int64_t g = 0; g < n_groups_; ++g)
      sum += caps_[g] * largest[g];
    return std::max(sum, 0.0);
  }

  // The cut that should gain most: in the group where weight is worst placed.
  int64_t most_wanted() {
    wanted_.assign(n_groups_, -1);
    lowest_.assign(n_groups_, std::numeric_limits<double>::infinity());
    for (int64_t c = 0; c < n_ + n_groups_; ++c) {
      const int64_t g = group(c);
      if (wanted_[g] < 0 || gradient(c) > gradient(wanted_[g]))
        wanted_[g] = c;
      if (weight(c) > 0)
        lowest_[g] = std::min(lowest_[g], gradient(c));
    }
    int64_t best = -1;
    double largest = 0;
    for (int64_t g = 0; g < n_groups_; ++g) {
      const double violation = caps_[g] * (gradient(wanted_[g]) - lowest_[g]);
      if (violation > largest)
        largest = violation, best = wanted_[g];
    }
    return best;
  }

  double curvature(int64_t c, int64_t d) const {
    return std::max(gram(c, c) + gram(d, d) - 2 * gram(c, d), 0.0);
  }

  double pair_length(int64_t up, int64_t down) const {
    const double rise = gradient(up) - gradient(down), bend = curvature(up, down);
    return rise < bend * weight(down) ? rise / bend : weight(down);
  }

  bool pair_step() {
    const int64_t up = most_wanted();
    if (up < 0)
      return false;
    int64_t down = -1;
    double largest = 0;
    for (int64_t c = 0; c < n_ + n_groups_; ++c) {
      if (group(c) != group(up) || !(weight(c) > 0) || gradient(c) >= gradient(up))
        continue;
      const double t = pair_length(up, c);
      const double gain = t * (gradient(up) - gradient(c) - 0.5 * t * curvature(up, c));
      if (gain > largest)
        largest = gain, down = c;
    }
    if (down < 0)
      return false;
    const double t = pair_length(up, down);
    move(up, t);
    if (t == weight(down))
      set(down, 0);
    else
      move(down, -t);
    add_to_gradient(up, -t);
    add_to_gradient(down, t);
    return true;
  }

  void set(int64_t c, double weight) { (is_slack(c) ? slack_[c - n_] : beta_[c]) = weight; }
  void move(int64_t c, double by) { set(c, std::max(0.0, weight(c) + by)); }

  // Newton's method on the positive weights; a step that meets a bound loses one variable and is
  // followed by another.
  void subspace_steps() {
    for (int drops = 0; drops < 20; ++drops) {
      ++steps_;
      if (!subspace_step())
        return;
    }
  }

  // True if the step met a bound. Each group's heaviest member balances the others' changes.
  bool subspace_step() {
    free_.clear();
    heaviest_.assign(n_groups_, -1);
    for (int64_t c = 0; c < n_ + n_groups_; ++c)
      if (const int64_t g = group(c); heaviest_[g] < 0 || weight(c) > weight(heaviest_[g]))
        heaviest_[g] = c;
    for (int64_t c = 0; c < n_ + n_groups_; ++c)
      if (weight(c) > 0 && c != heaviest_[group(c)])
        free_.push_back(c);
    const auto k = static_cast<int64_t>(free_.size());
    if (k == 0 || k > max_subspace)
      return false;
    matrix_.resize(k * k);
    direction_.resize(k);
    for (int64_t i = 0; i < k; ++i) {
      const int64_t c = free_[i], c0 = heaviest_[group(c)];
      direction_[i] = gradient(c) - gradient(c0);
      for (int64_t j = 0; j <= i; ++j) {
        const int64_t d = free_[j], d0 = heaviest_[group(d)];
        matrix_[i * k + j] = matrix_[j * k + i] =
            gram(c, d) - gram(c, d0) - gram(c0, d) + gram(c0, d0);
      }
    }
    cholesky_.solve(matrix_, direction_);
    return follow();
  }

  // Along the direction to the maximum or to the first bound.
  bool follow() {
    std::vector<double> change(n_ + n_groups_);
    for (size_t i = 0; i < free_.size(); ++i) {
      change[free_[i]] += direction_[i];
      change[heaviest_[group(free_[i])]] -= direction_[i];
    }
    // H change on its own, never as a difference of gradients: near the optimum the change is too
    // small to be seen in them, and a step without curvature would run into a bound.
    std::vector<double> response(n_);
    double slope = 0;
    for (int64_t c = 0; c < n_; ++c) {
      if (change[c] == 0)
        continue;
      slope += change[c] * gradient_[c];
      const double *row = gram_ + c * stride_;
#pragma omp simd
      for (int64_t d = 0; d < n_; ++d)
        response[d] += change[c] * row[d];
    }
    double bend = 0; // change' H change
    for (int64_t c = 0; c < n_; ++c)
      bend += change[c] * response[c];
    double t = bend > 0 ? slope / bend : std::numeric_limits<double>::infinity();
    int64_t blocking = -1;
    for (int64_t c = 0; c < n_ + n_groups_; ++c)
      if (change[c] < 0 && weight(c) + t * change[c] <= 0)
        t = -weight(c) / change[c], blocking = c;
    if (!(slope > 0) || !(t > 0) || !std::isfinite(t))
      return false;
    for (int64_t c = 0; c < n_ + n_groups_; ++c)
      if (change[c] != 0)
        move(c, t * change[c]);
    if (blocking >= 0)
      set(blocking, 0);
    for (int64_t c = 0; c < n_; ++c)
      gradient_[c] -= t * response[c];
    return blocking >= 0;
  }

  static constexpr int64_t max_subspace = 3000; // its matrix takes 72 MB

  const double *gram_;
  int64_t stride_;
  const double *r_;
  const int64_t *group_;
  const double *caps_;
  double *beta_;
  int64_t n_, n_groups_;
  std::vector<double> slack_, gradient_, lowest_, matrix_, direction_;
  std::vector<int64_t> wanted_, free_, heaviest_;
  RidgeCholesky cholesky_;
  int64_t steps_ = 0;
};

} // namespace bridle
