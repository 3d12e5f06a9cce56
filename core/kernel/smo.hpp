// Decomposition with second-order pairs, for the dual of a kernel machine
//
//     max_alpha  sum_i alpha_i - 1/2 sum_ij alpha_i alpha_j y_i y_j K_ij,   0 <= alpha_i <= C_i,
//     and, with a free bias, sum_i alpha_i y_i = 0.
//
// Joachims, "Making large-scale SVM learning practical" (1999): choose a working set of q
// variables, optimise over it, update the gradient. Half of the set are the worst violators, half
// are those chosen last. Inside the set pairs are chosen by second-order information (Fan, Chen &
// Lin, "Working set selection using second order information", JMLR 2005, WSS 2). So kernel rows
// are computed many at a time, and a pair costs q operations, not m.
// Rows whose variable rests at a bound are left out until `refresh`.
#pragma once

#include "base/parallel.hpp"
#include "kernel/expand.hpp"
#include "kernel/kernel_rows.hpp"
#include "kernel/working_set.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace bridle {

struct SmoReport {
  int64_t steps;    // changes of a pair, or of one variable without a free bias
  double violation; // of the optimality conditions, on the active rows
  double dual, gap; // by the gradient at hand; the gap counts active rows only
  int64_t n_active;
  double curvature; // the least seen: negative proves that K is not positive semi-definite
  bool stuck;       // nothing left to improve on the active rows
};

class Smo {
public:
  virtual ~Smo() = default;
  virtual SmoReport run(int64_t n_sets) = 0;
  virtual void alpha(double *out) const = 0;
  virtual void unshrink() = 0;
  virtual void refresh(const double *scores) = 0;
  virtual int64_t cache_peak_bytes() const = 0;
  virtual int64_t n_rows() const = 0;
};

template <class T> class SmoOn final : public Smo {
public:
  SmoOn(std::unique_ptr<KernelSource<T>> source, const double *signed_cost, const double *alpha,
        const double *scores, bool free_bias, int64_t set_size, int64_t cache_bytes, int n_threads)
      : kernel_(std::move(source), cache_bytes, n_threads), n_rows_(kernel_.source().n_rows()),
        free_(free_bias), n_threads_(n_threads), place_(n_rows_, -1), active_(n_rows_) {
    const int64_t fits = cache_bytes / (n_rows_ * static_cast<int64_t>(sizeof(T)));
    set_size_ = std::clamp<int64_t>(std::min(set_size, fits), 2, n_rows_ > 1 ? n_rows_ : 2);
    all_.resize(n_rows_);
    for (int64_t i = 0; i < n_rows_; ++i) {
      all_.a[i] = alpha[i];
      all_.y[i] = std::copysign(1.0, signed_cost[i]);
      all_.cost[i] = std::abs(signed_cost[i]);
    }
    std::iota(active_.begin(), active_.end(), int64_t{0});
    refresh(scores);
  }

  SmoReport run(int64_t n_sets) override {
    steps_ = 0;
    stuck_ = false;
    for (int64_t s = 0; s < n_sets && !stuck_; ++s) {
      if (++sets_since_shrinking_ >= 20)
        shrink();
      optimise_set();
    }
    look();
    return {steps_, violation(), inner_.dual, gap(), n_active(), inner_.curvature, stuck_};
  }

  void alpha(double *out) const override {
    std::copy(all_.a.begin(), all_.a.end(), out);
    for (int64_t p = 0; p < n_active(); ++p)
      out[active_[p]] = v_.a[p];
  }

  // Computes the scores of the rows that were left out, and decides anew which rows are active.
  void unshrink() override {
    store();
    RowNumbers left_out;
    for (int64_t i = 0; i < n_rows_; ++i)
      if (place_[i] < 0)
        left_out.push_back(i);
    // From the last scores of all rows, by what has changed since.
    std::vector<double> change(n_rows_), scores(left_out.size()), all(n_rows_);
    for (int64_t i = 0; i < n_rows_; ++i) {
      change[i] = all_.y[i] * (all_.a[i] - refreshed_alpha_[i]);
      all[i] = all_.f[i] + all_.y[i];
    }
    expand(
        kernel_.source(), std::span<const double>(change), left_out,
        [&](std::span<const int64_t> chosen, Panels<T> &panels) {
          kernel_.source().pack(chosen, panels);
        },
        scores.data(), n_threads_);
    for (size_t k = 0; k < left_out.size(); ++k)
      all[left_out[k]] = refreshed_scores_[left_out[k]] + scores[k];
    refresh(all.data());
  }

  // Takes over exact scores of the present alpha, and decides anew which rows are active.
  void refresh(const double *scores) override {
    store();
    refreshed_alpha_ = all_.a;
    refreshed_scores_.assign(scores, scores + n_rows_);
    inner_.dual = 0;
    for (int64_t i = 0; i < n_rows_; ++i) {
      all_.f[i] = scores[i] - all_.y[i];
      inner_.dual += all_.a[i] * (1 - 0.5 * all_.y[i] * scores[i]);
    }
    RowNumbers everything(n_rows_);
    std::iota(everything.begin(), everything.end(), int64_t{0});
    load(everything);
    look();
    RowNumbers keep;
    for (int64_t p = 0; p < n_active(); ++p)
      if (!at_rest(p))
        keep.push_back(p);
    // Few left out are not worth it.
    activate(static_cast<double>(keep.size()) < 0.9 * n_rows_ ? keep : everything);
    sets_since_shrinking_ = 0;
  }

  int64_t cache_peak_bytes() const override { return kernel_.cache_peak_bytes(); }
  int64_t n_rows() const override { return n_rows_; }

private:
  int64_t n_active() const { return v_.size(); }

  // The extremes of the optimality conditions on the active rows.
  void look() {
    up_ = std::numeric_limits<double>::infinity();
    low_ = -up_;
    worst_ = largest_ = 0;
    for (int64_t p = 0; p < n_active(); ++p) {
      largest_ = std::max(largest_, std::abs(v_.f[p]));
      if (!free_) {
        worst_ = std::max(worst_, std::abs(v_.projected(p)));
        continue;
      }
      if (v_.in_up(p))
        up_ = std::min(up_, v_.f[p]);
      if (v_.in_low(p))
        low_ = std::max(low_, v_.f[p]);
    }
  }
  double violation() const { return free_ ? std::max(0.0, low_ - up_) : worst_; }

  // At a bound, and by the present extremes not in any violating pair.
  bool at_rest(int64_t p) const {
    if (!free_) {
      const double g = v_.y[p] * v_.f[p];
      return !(v_.can_rise(p) && v_.can_fall(p)) && v_.projected(p) == 0 && std::abs(g) > worst_;
    }
    const bool up = v_.in_up(p), low = v_.in_low(p);
    return (!up || v_.f[p] > low_) && (!low || v_.f[p] < up_);
  }

  // b is the multiplier of the equality: halfway between the extremes.
  double bias() const {
    return free_ && std::isfinite(up_) && std::isfinite(low_) ? -(up_ + low_) / 2 : 0;
  }

  double gap() const {
    const double b = bias();
    double sum = 0;
    for (int64_t p = 0; p < n_active(); ++p) {
      const double slack = -v_.y[p] * (v_.f[p] + b); // 1 - p_i
      sum += v_.cost[p] * std::max(0.0, slack) - v_.a[p] * slack;
    }
    return sum;
  }

  void store() {
    for (int64_t p = 0; p < n_active(); ++p) {
      all_.a[active_[p]] = v_.a[p];
      all_.f[active_[p]] = v_.f[p];
    }
  }

  // The working copies of the given rows.
  void load(const RowNumbers &rows) {
    const auto n = rows.size();
    v_.resize(n);
    for (size_t p = 0; p < n; ++p) {
      v_.a[p] = all_.a[rows[p]];
      v_.f[p] = all_.f[rows[p]];
      v_.y[p] = all_.y[rows[p]];
      v_.cost[p] = all_.cost[rows[p]];
    }
  }

  void shrink() {
    sets_since_shrinking_ = 0;
    look();
    RowNumbers keep;
    for (int64_t p = 0; p < n_active(); ++p)
      if (!at_rest(p))
        keep.push_back(active_[p]);
    if (static_cast<double>(keep.size()) > 0.9 * static_cast<double>(n_active()) || keep.size() < 2)
      return;
    store();
    activate(keep);
  }

  // Makes these rows the active ones.
  void activate(const RowNumbers &rows) {
    RowNumbers old_place(place_);
    std::fill(place_.begin(), place_.end(), -1);
    for (size_t p = 0; p < rows.size(); ++p)
      place_[rows[p]] = static_cast<int64_t>(p);
    if (rows != active_) {
      // Variables at their bounds are seldom chosen again.
      kernel_.activate(rows, old_place, place_, [&](int64_t row) {
        return all_.a[row] > 0 && all_.a[row] < all_.cost[row];
      });
      active_ = rows;
    }
    load(active_);
  }

  // The positions of the working set: the worst violators, and those that were chosen last.
  RowNumbers choose() {
    RowNumbers set;
    taken_.assign(n_active(), 0);
    const auto take = [&](int64_t p) {
      if (!taken_[p])
        set.push_back(p);
      taken_[p] = 1;
    };
    const bool keeps_last = set_size_ >= 4;
    if (keeps_last)
      for (const int64_t row : last_chosen_)
        if (place_[row] >= 0)
          take(place_[row]);
    const auto n_new = static_cast<size_t>(keeps_last ? set_size_ / 2 : set_size_);
    BestFew ups(free_ ? n_new / 2 : n_new), lows(n_new / 2);
    look();
    for (int64_t p = 0; p < n_active(); ++p) {
      if (taken_[p])
        continue;
      if (!free_) {
        if (const double g = v_.projected(p); g != 0)
          ups.offer(g * g / std::max(kernel_.source().diagonal(active_[p]), inner_.tiny), p);
        continue;
      }
      if (v_.f[p] < low_ && v_.in_up(p))
        ups.offer(-v_.f[p], p);
      if (v_.f[p] > up_ && v_.in_low(p))
        lows.offer(v_.f[p], p);
    }
    const size_t kept = set.size();
    for (const BestFew *best : {&ups, &lows})
      for (const auto &candidate : best->all())
        take(candidate.position);
    last_chosen_.clear();
    for (size_t k = kept; k < set.size(); ++k)
      last_chosen_.push_back(active_[set[k]]);
    return set;
  }

  // Optimises over the set; the gradient of all active rows follows.
  void optimise_set() {
    const RowNumbers set = choose();
    // What is left of a violation at the rounding of the gradient's sums is none.
    if (violation() <= 1e-14 * std::max(1.0, largest_) || set.empty()) {
      stuck_ = true;
      return;
    }
    RowNumbers rows(set.size());
    std::transform(set.begin(), set.end(), rows.begin(), [&](int64_t p) { return active_[p]; });
    const std::vector<T *> values = kernel_.fetch(rows, active_);
    load_set(set, values);
    steps_ += free_ ? inner_.optimise_pairs() : inner_.optimise_singles();
    std::vector<const T *> changed;
    std::vector<double> change;
    for (size_t k = 0; k < set.size(); ++k) {
      double &alpha = v_.a[set[k]];
      if (inner_.a[k] == alpha)
        continue;
      changed.push_back(values[k]);
      change.push_back(v_.y[set[k]] * (inner_.a[k] - alpha));
      alpha = inner_.a[k];
    }
    stuck_ = changed.empty();
    const auto n_changed = static_cast<int64_t>(changed.size());
    const int64_t n_blocks = (n_active() + 4 * rows_at_once - 1) / (4 * rows_at_once);
    const int n_threads = threads_for(n_active() * (n_changed / 8), n_threads_);
    for_blocks(n_blocks, n_threads, [&](int64_t block) {
      const auto [begin, end] = block_range(n_active(), n_blocks, block);
      add_rows(changed.data(), change.data(), n_changed, begin, end, v_.f.data());
    });
  }

  void load_set(const RowNumbers &set, const std::vector<T *> &values) {
    const size_t q = set.size();
    inner_.resize(q);
    inner_.K.resize(q * q);
    for (size_t i = 0; i < q; ++i) {
      const int64_t p = set[i];
      inner_.a[i] = v_.a[p], inner_.f[i] = v_.f[p], inner_.y[i] = v_.y[p];
      inner_.cost[i] = v_.cost[p];
      for (size_t j = 0; j < q; ++j)
        inner_.K[i * q + j] = static_cast<double>(values[i][set[j]]);
      inner_.K[i * q + i] = kernel_.source().diagonal(active_[p]);
    }
  }

  KernelRows<T> kernel_;
  int64_t n_rows_;
  bool free_;
  int n_threads_;
  int64_t set_size_ = 2;
  // Of all rows; those of active rows are kept in the working copy below.
  DualVariables all_;
  std::vector<double> refreshed_alpha_, refreshed_scores_; // when all scores were last known
  RowNumbers place_;                                       // of a row among the active ones, or -1
  RowNumbers active_;
  DualVariables v_;
  WorkingSet inner_; // its dual and curvature are those of all rows
  RowNumbers last_chosen_;
  std::vector<char> taken_;
  double up_ = 0, low_ = 0, worst_ = 0, largest_ = 0;
  int64_t steps_ = 0, sets_since_shrinking_ = 0;
  bool stuck_ = false;
};

} // namespace bridle
