// Decomposition with second-order pairs, for the dual of a kernel machine
//
//     max_beta  sum_i [p_i beta_i - tube |beta_i| - 1/2 ridge_i beta_i^2]
//               - 1/2 sum_ij beta_i beta_j K_ij,       lower_i <= beta_i <= upper_i,
//     and, with a free bias, sum_i beta_i as it is at the start.
//
// For the hinge beta_i = alpha_i y_i, p = y, and there is neither tube nor ridge; regression has
// its targets for p and the width of the insensitive tube; smooth losses have a ridge; the
// one-class machine has p = 0 and a sum that is not 0.
//
// Joachims, "Making large-scale SVM learning practical" (1999): choose a working set of q
// variables, optimise over it, update the gradient. Half of the set are the worst violators, half
// are those chosen last. Inside the set pairs are chosen by second-order information (Fan, Chen &
// Lin, "Working set selection using second order information", JMLR 2005, WSS 2). So kernel rows
// are computed many at a time, and a pair costs q operations, not m.
// Rows whose variable rests at a bound, or inside the tube at 0, are left out until `refresh`.
//
// The rows are worked on in blocks, by all threads: kernel values, then the gradient and the worst
// violators of the block. What is done with a set itself is one thread's.
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

// What is to be maximised, a number for each row; read when the solver is made. No ridge: null.
struct SmoDual {
  const double *linear, *lower, *upper, *ridge;
  double tube;
  bool free_bias;
};

class Smo {
public:
  virtual ~Smo() = default;
  virtual SmoReport run(int64_t n_sets) = 0;
  virtual void coefficients(double *out) const = 0;
  virtual void unshrink() = 0;
  virtual void refresh(const double *scores) = 0;
  virtual int64_t cache_peak_bytes() const = 0;
  virtual int64_t n_rows() const = 0;
};

template <class T> class SmoOn final : public Smo {
public:
  SmoOn(std::unique_ptr<KernelSource<T>> source, const SmoDual &dual, const double *beta,
        const double *scores, int64_t set_size, int64_t cache_bytes, int n_threads)
      : kernel_(std::move(source), cache_bytes, n_threads), n_rows_(kernel_.source().n_rows()),
        free_(dual.free_bias), n_threads_(n_threads), linear_(dual.linear, dual.linear + n_rows_),
        place_(n_rows_, -1), active_(n_rows_),
        looks_(std::clamp<int64_t>(n_rows_ / rows_in_block, 1, most_blocks)) {
    const int64_t fits = cache_bytes / (n_rows_ * static_cast<int64_t>(sizeof(T)));
    set_size_ = std::clamp<int64_t>(std::min(set_size, fits), 2, n_rows_ > 1 ? n_rows_ : 2);
    all_.tube = v_.tube = inner_.tube = dual.tube;
    all_.resize(n_rows_);
    std::copy_n(beta, n_rows_, all_.beta.begin());
    std::copy_n(dual.lower, n_rows_, all_.lower.begin());
    std::copy_n(dual.upper, n_rows_, all_.upper.begin());
    if (dual.ridge)
      ridge_.assign(dual.ridge, dual.ridge + n_rows_);
    std::iota(active_.begin(), active_.end(), int64_t{0});
    refresh(scores);
  }

  SmoReport run(int64_t n_sets) override {
    steps_ = 0;
    stuck_ = false;
    while (n_sets > 0 && !stuck_) {
      if (sets_since_shrinking_ >= sets_between_shrinking)
        shrink();
      const int64_t n = std::min(n_sets, sets_between_shrinking - sets_since_shrinking_);
      optimise_sets(n);
      n_sets -= n;
      sets_since_shrinking_ += n;
    }
    return {steps_, violation(), inner_.dual, gap(), n_active(), inner_.curvature, stuck_};
  }

  void coefficients(double *out) const override {
    std::copy(all_.beta.begin(), all_.beta.end(), out);
    for (int64_t p = 0; p < n_active(); ++p)
      out[active_[p]] = v_.beta[p];
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
      change[i] = all_.beta[i] - refreshed_beta_[i];
      all[i] = all_.f[i] + linear_[i] - ridge(i) * all_.beta[i];
    }
    expand<T>(
        kernel_.source(), std::span<const double>(change), left_out,
        [&](std::span<const int64_t> chosen, Panels<T> &panels) {
          kernel_.source().pack(chosen, panels);
        },
        scores.data(), n_threads_);
    for (size_t k = 0; k < left_out.size(); ++k)
      all[left_out[k]] = refreshed_scores_[left_out[k]] + scores[k];
    refresh(all.data());
  }

  // Takes over exact scores of the present variables, and decides anew which rows are active.
  void refresh(const double *scores) override {
    store();
    refreshed_beta_ = all_.beta;
    refreshed_scores_.assign(scores, scores + n_rows_);
    inner_.dual = 0;
    for (int64_t i = 0; i < n_rows_; ++i) {
      const double beta = all_.beta[i], bent = ridge(i) * beta;
      all_.f[i] = scores[i] + bent - linear_[i];
      inner_.dual += beta * (linear_[i] - 0.5 * (scores[i] + bent)) - all_.tube * std::abs(beta);
    }
    RowNumbers everything(n_rows_);
    std::iota(everything.begin(), everything.end(), int64_t{0});
    load(everything);
    RowNumbers last_chosen; // whose places are not known yet
    std::swap(last_chosen, last_chosen_);
    std::swap(everything, active_); // what is loaded, and not in the cache yet
    look_again();
    std::swap(everything, active_);
    std::swap(last_chosen, last_chosen_);
    RowNumbers keep;
    for (int64_t p = 0; p < n_active(); ++p)
      if (!at_rest(p))
        keep.push_back(p);
    // Few left out are not worth it.
    if (static_cast<double>(keep.size()) < 0.9 * static_cast<double>(n_rows_))
      activate(keep);
    else
      activate(everything);
    sets_since_shrinking_ = 0;
  }

  int64_t cache_peak_bytes() const override { return kernel_.cache_peak_bytes(); }
  int64_t n_rows() const override { return n_rows_; }

private:
  static constexpr int64_t sets_between_shrinking = 20;
  // Of about so many rows a block; as many blocks whatever the number of active rows.
  static constexpr int64_t rows_in_block = 256, most_blocks = 256;

  // What one block of the active rows has to offer.
  struct Look {
    double up, low;        // the least slope of those that may rise, the largest that may fall
    double worst, largest; // without an equality the worst violation; the largest |F|
    BestFew ups, lows;
  };

  int64_t n_active() const { return v_.size(); }
  int64_t n_blocks() const { return static_cast<int64_t>(looks_.size()); }
  double ridge(int64_t row) const { return ridge_.empty() ? 0 : ridge_[row]; }

  // How many of a set are new, of each kind.
  bool keeps_last() const { return set_size_ >= 4; }
  size_t n_new() const {
    const auto n = static_cast<size_t>(keeps_last() ? set_size_ / 2 : set_size_);
    return free_ ? std::max<size_t>(1, n / 2) : n;
  }

  // Of each kind by one block: of many blocks a few times its share.
  size_t n_offered() const {
    return std::min(n_new(), std::max<size_t>(4, 4 * n_new() / looks_.size()));
  }

  // The extremes and the worst violators of a block, but for those that were chosen last.
  void look(int64_t block) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    Look &here = looks_[block];
    here.up = infinity, here.low = -infinity, here.worst = here.largest = 0;
    here.ups.restart(n_offered());
    here.lows.restart(n_offered());
    const auto [begin, end] = block_range(n_active(), n_blocks(), block);
    for (int64_t p = begin; p < end; ++p) {
      here.largest = std::max(here.largest, std::abs(v_.f[p]));
      if (!free_) {
        const double g = v_.projected(p);
        here.worst = std::max(here.worst, std::abs(g));
        if (g != 0 && !taken_[p])
          here.ups.offer(g * g / std::max(diagonal(active_[p]), inner_.tiny), p);
        continue;
      }
      if (v_.can_rise(p)) {
        const double up = v_.rising(p);
        here.up = std::min(here.up, up);
        if (!taken_[p])
          here.ups.offer(-up, p);
      }
      if (v_.can_fall(p)) {
        const double low = v_.falling(p);
        here.low = std::max(here.low, low);
        if (!taken_[p])
          here.lows.offer(low, p);
      }
    }
  }

  // The same of all active rows: the extremes.
  void conclude() {
    up_ = std::numeric_limits<double>::infinity();
    low_ = -up_;
    worst_ = largest_ = 0;
    for (const Look &here : looks_) {
      up_ = std::min(up_, here.up);
      low_ = std::max(low_, here.low);
      worst_ = std::max(worst_, here.worst);
      largest_ = std::max(largest_, here.largest);
    }
  }

  // At rows that have changed their places.
  void look_again() {
    taken_.assign(n_active(), 0);
    for (const int64_t row : last_chosen_)
      if (place_[row] >= 0)
        taken_[place_[row]] = 1;
    for_blocks(n_blocks(), threads_here(), [&](int64_t block) { look(block); });
    conclude();
  }

  // For short loops over the active rows.
  int threads_here() const { return n_active() >= 4 * rows_in_block ? n_threads_ : 1; }

  double violation() const { return free_ ? std::max(0.0, low_ - up_) : worst_; }
  // What is left of a violation at the rounding of the gradient's sums is none.
  bool nothing_left() const { return violation() <= 1e-14 * std::max(1.0, largest_); }

  // By the present extremes not in any violating pair.
  bool at_rest(int64_t p) const {
    const double low = free_ ? low_ : worst_, up = free_ ? up_ : -worst_;
    return (!v_.can_rise(p) || v_.rising(p) > low) && (!v_.can_fall(p) || v_.falling(p) < up);
  }

  // b is the multiplier of the equality: halfway between the extremes.
  double bias() const {
    return free_ && std::isfinite(up_) && std::isfinite(low_) ? -(up_ + low_) / 2 : 0;
  }

  // Of each row the largest that r beta - tube |beta| - ridge/2 beta^2 is in the box, less what it
  // is: the loss and its conjugate at the residual r = p - s - b.
  double gap() const {
    std::vector<double> parts(n_blocks());
    for_blocks(n_blocks(), threads_here(),
               [&](int64_t block) { parts[block] = gap(block, bias()); });
    return std::accumulate(parts.begin(), parts.end(), 0.0);
  }
  double gap(int64_t block, double b) const {
    double sum = 0;
    const auto [begin, end] = block_range(n_active(), n_blocks(), block);
    for (int64_t p = begin; p < end; ++p) {
      const double bent = ridge(active_[p]), beta = v_.beta[p];
      const double r = bent * beta - v_.f[p] - b;
      const double beyond = std::copysign(std::max(std::abs(r) - v_.tube, 0.0), r);
      const double far = bent > 0 ? beyond / bent : std::copysign(infinite, beyond);
      const double best = beyond == 0 ? 0 : std::clamp(far, v_.lower[p], v_.upper[p]);
      sum += best * beyond - r * beta + v_.tube * std::abs(beta) -
             0.5 * bent * (best * best - beta * beta);
    }
    return sum;
  }

  void store() {
    for (int64_t p = 0; p < n_active(); ++p) {
      all_.beta[active_[p]] = v_.beta[p];
      all_.f[active_[p]] = v_.f[p];
    }
  }

  // The working copies of the given rows.
  void load(const RowNumbers &rows) {
    const auto n = rows.size();
    v_.resize(n);
    for (size_t p = 0; p < n; ++p) {
      v_.beta[p] = all_.beta[rows[p]];
      v_.f[p] = all_.f[rows[p]];
      v_.lower[p] = all_.lower[rows[p]];
      v_.upper[p] = all_.upper[rows[p]];
    }
  }

  void shrink() {
    sets_since_shrinking_ = 0;
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
      // Variables at rest are seldom chosen again.
      kernel_.activate(rows, old_place, place_, [&](int64_t row) {
        const double beta = all_.beta[row];
        return beta != 0 && all_.lower[row] < beta && beta < all_.upper[row];
      });
      active_ = rows;
    }
    load(active_);
    look_again();
  }

  // The positions of the working set: the worst violators, and those that were chosen last.
  RowNumbers choose() {
    RowNumbers set;
    if (keeps_last())
      for (const int64_t row : last_chosen_)
        if (place_[row] >= 0)
          set.push_back(place_[row]);
    for (const int64_t p : set)
      taken_[p] = 0; // they may be chosen as new ones from now on
    const size_t kept = set.size();
    BestFew ups(n_new()), lows(n_new());
    for (const Look &here : looks_) {
      for (const auto &[merit, p] : here.ups.all())
        if (!free_ || -merit < low_)
          ups.offer(merit, p);
      for (const auto &[merit, p] : here.lows.all())
        if (merit > up_)
          lows.offer(merit, p);
    }
    last_chosen_.clear();
    for (const BestFew *best : {&ups, &lows})
      for (const auto &candidate : best->all())
        if (!taken_[candidate.position]) {
          taken_[candidate.position] = 1;
          set.push_back(candidate.position);
        }
    if (keeps_last())
      for (size_t k = kept; k < set.size(); ++k)
        last_chosen_.push_back(active_[set[k]]);
    else // all may be chosen again, also after a look at other rows
      for (const int64_t p : set)
        taken_[p] = 0;
    return set;
  }

  // Optimises over so many sets, one after the other; the gradient of all active rows follows.
  void optimise_sets(int64_t n) {
    if (n_active() < 1) {
      stuck_ = true;
      return;
    }
    together(n_blocks(), threads_here(), [&](Member &member) {
      for (int64_t k = 0; k < n; ++k) {
        member.meet([&] { begin_set(); });
        if (stuck_ || !member.going())
          return;
        member.each([&](int64_t block) {
          const auto [begin, end] = block_range(n_active(), n_blocks(), block);
          kernel_.compute(active_, begin, end);
        });
        member.meet([&] { solve_set(); });
        if (!member.going())
          return;
        member.each([&](int64_t block) {
          const auto [begin, end] = block_range(n_active(), n_blocks(), block);
          add_rows(changed_.data(), change_.data(), static_cast<int64_t>(changed_.size()), begin,
                   end, v_.f.data());
          look(block);
        });
      }
      member.meet([&] { conclude(); });
    });
  }

  void begin_set() {
    conclude();
    if (stuck_)
      return;
    set_ = choose();
    if (nothing_left() || set_.empty()) {
      stuck_ = true;
      return;
    }
    set_rows_.resize(set_.size());
    std::transform(set_.begin(), set_.end(), set_rows_.begin(),
                   [&](int64_t p) { return active_[p]; });
    kernel_.prepare(set_rows_, n_active(), set_values_);
  }

  void solve_set() {
    load_set();
    steps_ += free_ ? inner_.optimise_pairs() : inner_.optimise_singles();
    changed_.clear();
    change_.clear();
    for (size_t k = 0; k < set_.size(); ++k) {
      const int64_t p = set_[k];
      const double change = inner_.beta[k] - v_.beta[p];
      if (change == 0)
        continue;
      changed_.push_back(set_values_[k]);
      change_.push_back(change);
      v_.beta[p] = inner_.beta[k];
      v_.f[p] += ridge(active_[p]) * change;
    }
    stuck_ = changed_.empty();
  }

  void load_set() {
    const size_t q = set_.size();
    inner_.resize(q);
    inner_.K.resize(q * q);
    for (size_t i = 0; i < q; ++i) {
      const int64_t p = set_[i];
      inner_.beta[i] = v_.beta[p], inner_.f[i] = v_.f[p];
      inner_.lower[i] = v_.lower[p], inner_.upper[i] = v_.upper[p];
      for (size_t j = 0; j < q; ++j)
        inner_.K[i * q + j] = static_cast<double>(set_values_[i][set_[j]]);
      inner_.K[i * q + i] = diagonal(active_[p]);
    }
  }

  double diagonal(int64_t row) const { return kernel_.source().diagonal(row) + ridge(row); }

  static constexpr double infinite = std::numeric_limits<double>::infinity();

  KernelRows<T> kernel_;
  int64_t n_rows_;
  bool free_;
  int n_threads_;
  int64_t set_size_ = 2;
  std::vector<double> linear_, ridge_; // of all rows
  // Of all rows; those of active rows are kept in the working copy below.
  DualVariables all_;
  std::vector<double> refreshed_beta_, refreshed_scores_; // when all scores were last known
  RowNumbers place_;                                      // of a row among the active ones, or -1
  RowNumbers active_;
  DualVariables v_;
  std::vector<Look> looks_; // a block each
  double up_ = 0, low_ = 0, worst_ = 0, largest_ = 0;
  // The set at work: positions, rows, and the kernel rows; those that have changed, by how much.
  RowNumbers set_, set_rows_;
  std::vector<T *> set_values_;
  std::vector<const T *> changed_;
  std::vector<double> change_;
  WorkingSet inner_; // its dual and curvature are those of all rows
  RowNumbers last_chosen_;
  std::vector<char> taken_; // chosen last
  int64_t steps_ = 0, sets_since_shrinking_ = 0;
  bool stuck_ = false;
};

} // namespace bridle
