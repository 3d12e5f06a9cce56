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
//
// F_i = s_i - y_i, s_i = sum_j alpha_j y_j K_ij. Rows whose variable rests at a bound are left out
// until `refresh`.
#pragma once

#include "kernel/panels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <list>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace bridle {

// Rows of kernel values at the active columns, the least recently used dropped for a budget in
// bytes.
template <class T> class RowCache {
public:
  struct Free {
    void operator()(T *values) const { std::free(values); }
  };
  using Values = std::unique_ptr<T, Free>;

  RowCache(int64_t n_rows, int64_t budget) : entries_(n_rows), budget_(budget) {}

  T *find(int64_t row) {
    Entry &entry = entries_[row];
    if (!entry.values)
      return nullptr;
    order_.splice(order_.begin(), order_, entry.place);
    return entry.values.get();
  }

  // Room for a row of `size` values; others go if they must, the newest last.
  T *add(int64_t row, int64_t size) {
    make_room(size * static_cast<int64_t>(sizeof(T)));
    Entry &entry = entries_[row];
    entry.values = allocate(size);
    entry.bytes = size * static_cast<int64_t>(sizeof(T));
    order_.push_front(row);
    entry.place = order_.begin();
    bytes_ += entry.bytes;
    peak_ = std::max(peak_, bytes_);
    return entry.values.get();
  }

  // Drops the oldest until the rest fit with `size` values each, and `spare` such rows beside them.
  void fit(int64_t size, int64_t spare) {
    const int64_t each = size * static_cast<int64_t>(sizeof(T));
    while (!order_.empty() && (static_cast<int64_t>(order_.size()) + spare) * each > budget_)
      drop(order_.back());
  }
  // The row keeps its first `size` values. Safe for different rows at once, until `recount`.
  void truncate(int64_t row, int64_t size) {
    auto &values = entries_[row].values;
    if (void *moved = std::realloc(values.get(), std::max<size_t>(size * sizeof(T), 1))) {
      values.release();
      values.reset(static_cast<T *>(moved));
    }
  }
  void replace(int64_t row, Values values) { entries_[row].values = std::move(values); }
  // After truncate or replace: every row now has `size` values.
  void recount(int64_t size) {
    bytes_ = 0;
    for (const int64_t row : order_)
      bytes_ += entries_[row].bytes = size * static_cast<int64_t>(sizeof(T));
    peak_ = std::max(peak_, bytes_);
  }
  void drop(int64_t row) {
    Entry &entry = entries_[row];
    order_.erase(entry.place);
    bytes_ -= entry.bytes;
    entry.values.reset();
    entry.bytes = 0;
  }
  static Values allocate(int64_t size) {
    void *memory = std::malloc(std::max<size_t>(size * sizeof(T), 1));
    if (!memory)
      throw std::bad_alloc();
    return Values(static_cast<T *>(memory));
  }
  T *values(int64_t row) { return entries_[row].values.get(); }
  std::vector<int64_t> rows() const { return {order_.begin(), order_.end()}; }
  int64_t peak_bytes() const { return peak_; }

private:
  struct Entry {
    Values values;
    int64_t bytes = 0;
    std::list<int64_t>::iterator place;
  };

  void make_room(int64_t bytes) {
    while (!order_.empty() && bytes_ + bytes > budget_)
      drop(order_.back());
  }
  std::vector<Entry> entries_;
  std::list<int64_t> order_; // the most recently used first
  int64_t budget_, bytes_ = 0, peak_ = 0;
};

// sum[i] += sum_k weights[k] rows[k][i]
template <class T>
BRIDLE_WIDEST void add_rows(const T *const *rows, const double *weights, int64_t n_rows,
                            int64_t begin, int64_t end, double *sum) {
  int64_t k = 0;
  for (; k + 4 <= n_rows; k += 4) {
    const T *r0 = rows[k], *r1 = rows[k + 1], *r2 = rows[k + 2], *r3 = rows[k + 3];
    const double w0 = weights[k], w1 = weights[k + 1], w2 = weights[k + 2], w3 = weights[k + 3];
    for (int64_t i = begin; i < end; ++i)
      sum[i] += (w0 * r0[i] + w1 * r1[i]) + (w2 * r2[i] + w3 * r3[i]);
  }
  for (; k < n_rows; ++k)
    for (int64_t i = begin; i < end; ++i)
      sum[i] += weights[k] * rows[k][i];
}

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
};

template <class T> class SmoOn final : public Smo {
public:
  SmoOn(std::unique_ptr<KernelSource<T>> source, const double *signed_cost, const double *alpha,
        const double *scores, bool free_bias, int64_t set_size, int64_t cache_bytes, int n_threads)
      : source_(std::move(source)), n_rows_(source_->n_rows()), free_(free_bias),
        n_threads_(n_threads), cache_(n_rows_, cache_bytes), all_alpha_(alpha, alpha + n_rows_),
        all_f_(n_rows_), place_(n_rows_, -1) {
    const int64_t fits = cache_bytes / (n_rows_ * static_cast<int64_t>(sizeof(T)));
    set_size_ = std::clamp<int64_t>(std::min(set_size, fits), 2, n_rows_ > 1 ? n_rows_ : 2);
    all_y_.resize(n_rows_);
    all_cost_.resize(n_rows_);
    for (int64_t i = 0; i < n_rows_; ++i) {
      all_y_[i] = std::copysign(1.0, signed_cost[i]);
      all_cost_[i] = std::abs(signed_cost[i]);
    }
    active_.resize(n_rows_);
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
    return {steps_, violation(), dual_, gap(), n_active(), curvature_, stuck_};
  }

  void alpha(double *out) const override {
    std::copy(all_alpha_.begin(), all_alpha_.end(), out);
    for (int64_t p = 0; p < n_active(); ++p)
      out[active_[p]] = a_[p];
  }

  // Computes the scores of the rows that were left out, and decides anew which rows are active.
  void unshrink() override {
    store();
    std::vector<int64_t> left_out;
    for (int64_t i = 0; i < n_rows_; ++i)
      if (place_[i] < 0)
        left_out.push_back(i);
    // From the last scores of all rows, by what has changed since.
    std::vector<double> change(n_rows_), scores(left_out.size()), all(n_rows_);
    for (int64_t i = 0; i < n_rows_; ++i) {
      change[i] = all_y_[i] * (all_alpha_[i] - refreshed_alpha_[i]);
      all[i] = all_f_[i] + all_y_[i];
    }
    expand(
        *source_, std::span<const double>(change), left_out,
        [&](std::span<const int64_t> chosen, Panels<T> &panels) { source_->pack(chosen, panels); },
        scores.data(), n_threads_);
    for (size_t k = 0; k < left_out.size(); ++k)
      all[left_out[k]] = refreshed_scores_[left_out[k]] + scores[k];
    refresh(all.data());
  }

  // Takes over exact scores of the present alpha, and decides anew which rows are active.
  void refresh(const double *scores) override {
    store();
    refreshed_alpha_ = all_alpha_;
    refreshed_scores_.assign(scores, scores + n_rows_);
    dual_ = 0;
    for (int64_t i = 0; i < n_rows_; ++i) {
      all_f_[i] = scores[i] - all_y_[i];
      dual_ += all_alpha_[i] * (1 - 0.5 * all_y_[i] * scores[i]);
    }
    std::vector<int64_t> everything(n_rows_);
    std::iota(everything.begin(), everything.end(), int64_t{0});
    load(everything);
    look();
    std::vector<int64_t> keep;
    for (int64_t p = 0; p < n_active(); ++p)
      if (!at_rest(p))
        keep.push_back(p);
    // Few left out are not worth it.
    activate(static_cast<double>(keep.size()) < 0.9 * n_rows_ ? keep : everything);
    sets_since_shrinking_ = 0;
  }

  int64_t cache_peak_bytes() const override { return cache_.peak_bytes(); }

private:
  struct Candidate {
    double merit;
    int64_t position;
    bool operator<(const Candidate &other) const { // by merit; the earlier row wins a tie
      return merit != other.merit ? merit > other.merit : position < other.position;
    }
  };

  int64_t n_active() const { return static_cast<int64_t>(a_.size()); }
  bool can_rise(int64_t p) const { return a_[p] < cost_[p]; }
  bool can_fall(int64_t p) const { return a_[p] > 0; }
  // Whether alpha_p y_p may go up, or down.
  bool in_up(int64_t p) const { return y_[p] > 0 ? can_rise(p) : can_fall(p); }
  bool in_low(int64_t p) const { return y_[p] > 0 ? can_fall(p) : can_rise(p); }

  // Without a free bias: minus the gradient of D, where the box lets the variable follow it.
  double projected(int64_t p) const {
    const double g = y_[p] * f_[p];
    return (g < 0 && can_rise(p)) || (g > 0 && can_fall(p)) ? g : 0;
  }

  // The extremes of the optimality conditions on the active rows.
  void look() {
    up_ = std::numeric_limits<double>::infinity();
    low_ = -up_;
    worst_ = largest_ = 0;
    for (int64_t p = 0; p < n_active(); ++p) {
      largest_ = std::max(largest_, std::abs(f_[p]));
      if (!free_) {
        worst_ = std::max(worst_, std::abs(projected(p)));
        continue;
      }
      if (in_up(p))
        up_ = std::min(up_, f_[p]);
      if (in_low(p))
        low_ = std::max(low_, f_[p]);
    }
  }
  double violation() const { return free_ ? std::max(0.0, low_ - up_) : worst_; }

  // At a bound, and by the present extremes not in any violating pair.
  bool at_rest(int64_t p) const {
    if (!free_) {
      const double g = y_[p] * f_[p];
      return !(can_rise(p) && can_fall(p)) && projected(p) == 0 && std::abs(g) > worst_;
    }
    const bool up = in_up(p), low = in_low(p);
    return (!up || f_[p] > low_) && (!low || f_[p] < up_);
  }

  // b is the multiplier of the equality: halfway between the extremes.
  double bias() const {
    return free_ && std::isfinite(up_) && std::isfinite(low_) ? -(up_ + low_) / 2 : 0;
  }

  double gap() const {
    const double b = bias();
    double sum = 0;
    for (int64_t p = 0; p < n_active(); ++p) {
      const double slack = -y_[p] * (f_[p] + b); // 1 - p_i
      sum += cost_[p] * std::max(0.0, slack) - a_[p] * slack;
    }
    return sum;
  }

  void store() {
    for (int64_t p = 0; p < n_active(); ++p) {
      all_alpha_[active_[p]] = a_[p];
      all_f_[active_[p]] = f_[p];
    }
  }

  // The working copies of the given rows.
  void load(const std::vector<int64_t> &rows) {
    const auto n = rows.size();
    a_.resize(n), f_.resize(n), y_.resize(n), cost_.resize(n);
    for (size_t p = 0; p < n; ++p) {
      a_[p] = all_alpha_[rows[p]];
      f_[p] = all_f_[rows[p]];
      y_[p] = all_y_[rows[p]];
      cost_[p] = all_cost_[rows[p]];
    }
  }

  void shrink() {
    sets_since_shrinking_ = 0;
    look();
    std::vector<int64_t> keep;
    for (int64_t p = 0; p < n_active(); ++p)
      if (!at_rest(p))
        keep.push_back(active_[p]);
    if (static_cast<double>(keep.size()) > 0.9 * static_cast<double>(n_active()) || keep.size() < 2)
      return;
    store();
    activate(keep);
  }

  // Makes these rows the active ones.
  void activate(const std::vector<int64_t> &rows) {
    std::vector<int64_t> old_place(place_);
    std::fill(place_.begin(), place_.end(), -1);
    for (size_t p = 0; p < rows.size(); ++p)
      place_[rows[p]] = static_cast<int64_t>(p);
    if (rows != active_) {
      const bool only_fewer =
          std::all_of(rows.begin(), rows.end(), [&](int64_t row) { return old_place[row] >= 0; });
      if (only_fewer)
        narrow_cache(rows, old_place);
      else
        widen_cache(rows, old_place);
      active_ = rows;
    }
    load(active_);
  }

  // Calls work(first, count) for batches of cached rows.
  template <class Work> void for_cached(const std::vector<int64_t> &cached, Work &&work) {
    const auto n = static_cast<int64_t>(cached.size());
    for_blocks((n + panel_width - 1) / panel_width, n_threads_, [&](int64_t batch) {
      const int64_t first = batch * panel_width;
      work(first, std::min(panel_width, n - first));
    });
  }

  // Cached rows lose the columns that are left out; rows that are left out themselves go.
  void narrow_cache(const std::vector<int64_t> &rows, const std::vector<int64_t> &old_place) {
    const auto size = static_cast<int64_t>(rows.size());
    for (const int64_t row : cache_.rows())
      if (place_[row] < 0)
        cache_.drop(row);
    std::vector<int32_t> from(size); // increasing, so that values can move in place
    for (int64_t p = 0; p < size; ++p)
      from[p] = static_cast<int32_t>(old_place[rows[p]]);
    const std::vector<int64_t> cached = cache_.rows();
    for_cached(cached, [&](int64_t first, int64_t count) {
      for (int64_t c = first; c < first + count; ++c) {
        T *values = cache_.values(cached[c]);
        for (int64_t p = 0; p < size; ++p)
          values[p] = values[from[p]];
        cache_.truncate(cached[c], size);
      }
    });
    cache_.recount(size);
  }

  // Cached rows get the columns that are new. Only those of variables between their bounds: the
  // others are seldom chosen again.
  void widen_cache(const std::vector<int64_t> &rows, const std::vector<int64_t> &old_place) {
    const auto size = static_cast<int64_t>(rows.size());
    for (const int64_t row : cache_.rows())
      if (place_[row] < 0 || all_alpha_[row] <= 0 || all_alpha_[row] >= all_cost_[row])
        cache_.drop(row);
    cache_.fit(size, panel_width * n_threads_);
    std::vector<int64_t> added;
    for (const int64_t row : rows)
      if (old_place[row] < 0)
        added.push_back(row);
    const std::vector<int64_t> cached = cache_.rows();
    for_cached(cached, [&](int64_t first, int64_t count) {
      std::vector<T> fresh(count * added.size());
      T *out[panel_width] = {};
      for (int64_t c = 0; c < count; ++c)
        out[c] = fresh.data() + c * added.size();
      Panels<T> panels;
      source_->pack(std::span(cached).subspan(first, count), panels);
      source_->block(panels, added, out);
      for (int64_t c = 0; c < count; ++c) {
        auto values = RowCache<T>::allocate(size);
        const T *old = cache_.values(cached[first + c]), *next = out[c];
        for (int64_t p = 0; p < size; ++p) {
          const int64_t before = old_place[rows[p]];
          values.get()[p] = before >= 0 ? old[before] : *next++;
        }
        cache_.replace(cached[first + c], std::move(values));
      }
    });
    cache_.recount(size);
  }

  // Keeps the best few of many: a heap whose top is the worst of them.
  static void offer(std::vector<Candidate> &best, size_t limit, const Candidate &candidate) {
    if (best.size() < limit) {
      best.push_back(candidate);
      std::push_heap(best.begin(), best.end());
    } else if (limit > 0 && candidate < best.front()) {
      std::pop_heap(best.begin(), best.end());
      best.back() = candidate;
      std::push_heap(best.begin(), best.end());
    }
  }

  // The positions of the working set: the worst violators, and those that were chosen last.
  std::vector<int64_t> choose() {
    std::vector<int64_t> set;
    std::vector<char> &taken = taken_;
    taken.assign(n_active(), 0);
    if (set_size_ >= 4)
      for (const int64_t row : last_chosen_)
        if (place_[row] >= 0) {
          set.push_back(place_[row]);
          taken[place_[row]] = 1;
        }
    const auto n_new = static_cast<size_t>(set_size_ >= 4 ? set_size_ / 2 : set_size_);
    const auto add = [&](const std::vector<Candidate> &best) {
      for (const Candidate &candidate : best)
        if (!taken[candidate.position]) {
          taken[candidate.position] = 1;
          set.push_back(candidate.position);
        }
    };
    std::vector<Candidate> ups, lows;
    look();
    if (free_) {
      for (int64_t p = 0; p < n_active(); ++p) {
        if (taken[p])
          continue;
        if (f_[p] < low_ && in_up(p))
          offer(ups, n_new / 2, {-f_[p], p});
        if (f_[p] > up_ && in_low(p))
          offer(lows, n_new / 2, {f_[p], p});
      }
    } else {
      for (int64_t p = 0; p < n_active(); ++p) {
        const double g = taken[p] ? 0 : projected(p);
        if (g != 0)
          offer(ups, n_new, {g * g / std::max(source_->diagonal(active_[p]), tiny), p});
      }
    }
    const size_t kept = set.size();
    add(ups);
    add(lows);
    last_chosen_.clear();
    for (size_t k = kept; k < set.size(); ++k)
      last_chosen_.push_back(active_[set[k]]);
    return set;
  }

  // The kernel rows of the set, from the cache or computed together.
  std::vector<T *> fetch(const std::vector<int64_t> &set) {
    std::vector<T *> rows(set.size());
    std::vector<size_t> missing;
    for (size_t k = 0; k < set.size(); ++k) {
      rows[k] = cache_.find(active_[set[k]]);
      if (!rows[k])
        missing.push_back(k);
    }
    if (missing.empty())
      return rows;
    std::vector<int64_t> ids;
    std::vector<T *> out;
    for (const size_t k : missing) {
      ids.push_back(active_[set[k]]);
      out.push_back(rows[k] = cache_.add(ids.back(), n_active()));
    }
    source_->pack(ids, panels_);
    const int64_t n_blocks = (n_active() + rows_at_once - 1) / rows_at_once;
    for_blocks(n_blocks, threads_for(static_cast<int64_t>(out.size())), [&](int64_t block) {
      const auto [begin, end] = block_range(n_active(), n_blocks, block);
      std::vector<T *> here(out);
      for (T *&row : here)
        row += begin;
      source_->block(panels_, std::span(active_).subspan(begin, end - begin), here.data());
    });
    return rows;
  }

  // A thread costs some tens of microseconds to start.
  int threads_for(int64_t n_centres) const {
    return n_active() * n_centres > 300000 ? n_threads_ : 1;
  }

  void optimise_set() {
    const std::vector<int64_t> set = choose();
    const auto q = static_cast<int64_t>(set.size());
    // What is left of a violation at the rounding of the gradient's sums is none.
    if (violation() <= 1e-14 * std::max(1.0, largest_) || q == 0) {
      stuck_ = true;
      return;
    }
    const std::vector<T *> rows = fetch(set);
    inner_k_.resize(q * q), inner_f_.resize(q), before_.resize(q);
    for (int64_t i = 0; i < q; ++i) {
      inner_f_[i] = f_[set[i]];
      before_[i] = a_[set[i]];
      for (int64_t j = 0; j < q; ++j)
        inner_k_[i * q + j] = static_cast<double>(rows[i][set[j]]);
      inner_k_[i * q + i] = source_->diagonal(active_[set[i]]);
    }
    const int64_t steps = free_ ? optimise_pairs(set) : optimise_singles(set);
    steps_ += steps;
    std::vector<const T *> changed;
    std::vector<double> change;
    for (int64_t i = 0; i < q; ++i)
      if (a_[set[i]] != before_[i]) {
        changed.push_back(rows[i]);
        change.push_back(y_[set[i]] * (a_[set[i]] - before_[i]));
      }
    stuck_ = changed.empty();
    const int64_t n_blocks = (n_active() + 4 * rows_at_once - 1) / (4 * rows_at_once);
    const int n_threads = threads_for(static_cast<int64_t>(changed.size()) / 8);
    for_blocks(n_blocks, n_threads, [&](int64_t block) {
      const auto [begin, end] = block_range(n_active(), n_blocks, block);
      add_rows(changed.data(), change.data(), static_cast<int64_t>(changed.size()), begin, end,
               f_.data());
    });
  }

  // Room to move alpha y of p up, or down.
  double room_up(int64_t p) const { return y_[p] > 0 ? cost_[p] - a_[p] : a_[p]; }
  double room_down(int64_t p) const { return y_[p] > 0 ? a_[p] : cost_[p] - a_[p]; }

  // Moves alpha y of p by t; `whole` says that t is all the room there is: then exactly to the
  // bound.
  void move(int64_t p, double t, bool whole) {
    const bool rising = (t > 0) == (y_[p] > 0);
    if (whole)
      a_[p] = rising ? cost_[p] : 0;
    else
      a_[p] = std::clamp(a_[p] + y_[p] * t, 0.0, cost_[p]);
  }

  double safe_curvature(double value, double scale) {
    curvature_ = std::min(curvature_, value / std::max(scale, tiny));
    return std::max(value, tiny);
  }

  // WSS 2 on the set until its violation is a tenth of what it was.
  int64_t optimise_pairs(const std::vector<int64_t> &set) {
    const auto q = static_cast<int64_t>(set.size());
    double goal = -1;
    int64_t step = 0;
    for (; step < 100 * q; ++step) {
      int64_t i = -1, j = -1;
      double low = -std::numeric_limits<double>::infinity();
      for (int64_t k = 0; k < q; ++k) {
        if (in_up(set[k]) && (i < 0 || inner_f_[k] < inner_f_[i]))
          i = k;
        if (in_low(set[k]))
          low = std::max(low, inner_f_[k]);
      }
      if (i < 0 || !(low > inner_f_[i]))
        break;
      const double violation = low - inner_f_[i];
      if (goal < 0)
        goal = 0.1 * violation;
      else if (violation <= goal)
        break;
      const double *ki = inner_k_.data() + i * q;
      double best = 0;
      for (int64_t k = 0; k < q; ++k) {
        const double difference = inner_f_[k] - inner_f_[i];
        if (!(difference > 0) || !in_low(set[k]))
          continue;
        const double eta = std::max(ki[i] + inner_k_[k * q + k] - 2 * ki[k], tiny);
        if (difference * difference / eta > best) {
          best = difference * difference / eta;
          j = k;
        }
      }
      const double *kj = inner_k_.data() + j * q;
      const double eta = safe_curvature(ki[i] + kj[j] - 2 * ki[j], ki[i] + kj[j]);
      const double difference = inner_f_[j] - inner_f_[i];
      const double room_i = room_up(set[i]), room_j = room_down(set[j]);
      const double t = std::min({difference / eta, room_i, room_j});
      move(set[i], t, t >= room_i);
      move(set[j], -t, t >= room_j);
      dual_ += t * difference - 0.5 * t * t * eta;
      for (int64_t k = 0; k < q; ++k)
        inner_f_[k] += t * (ki[k] - kj[k]);
    }
    return step;
  }

  // Without the equality: the single variable that raises D the most.
  int64_t optimise_singles(const std::vector<int64_t> &set) {
    const auto q = static_cast<int64_t>(set.size());
    double goal = -1;
    int64_t step = 0;
    for (; step < 100 * q; ++step) {
      int64_t i = -1;
      double best = 0, worst = 0;
      for (int64_t k = 0; k < q; ++k) {
        const int64_t p = set[k];
        const double g = y_[p] * inner_f_[k];
        if (!((g < 0 && can_rise(p)) || (g > 0 && can_fall(p))))
          continue;
        worst = std::max(worst, std::abs(g));
        const double merit = g * g / std::max(inner_k_[k * q + k], tiny);
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
      const double *ki = inner_k_.data() + i * q;
      const double eta = safe_curvature(ki[i], std::abs(ki[i]));
      const double direction = -inner_f_[i]; // of alpha y
      const double room = direction > 0 ? room_up(set[i]) : room_down(set[i]);
      const double t = std::min(std::abs(direction) / eta, room);
      move(set[i], std::copysign(t, direction), t >= room);
      dual_ += t * std::abs(direction) - 0.5 * t * t * eta;
      for (int64_t k = 0; k < q; ++k)
        inner_f_[k] += std::copysign(t, direction) * ki[k];
    }
    return step;
  }

  static constexpr double tiny = 1e-12;

  std::unique_ptr<KernelSource<T>> source_;
  int64_t n_rows_;
  bool free_;
  int n_threads_;
  int64_t set_size_ = 2;
  RowCache<T> cache_;
  // Of all rows; those of active rows are kept in the working copies below.
  std::vector<double> all_alpha_, all_f_, all_y_, all_cost_;
  std::vector<double> refreshed_alpha_, refreshed_scores_; // when all scores were last known
  std::vector<int64_t> place_;                             // of a row among the active ones, or -1
  std::vector<int64_t> active_;
  std::vector<double> a_, f_, y_, cost_;
  std::vector<int64_t> last_chosen_;
  std::vector<char> taken_;
  std::vector<double> inner_k_, inner_f_, before_;
  Panels<T> panels_;
  double up_ = 0, low_ = 0, worst_ = 0, largest_ = 0, dual_ = 0;
  double curvature_ = std::numeric_limits<double>::infinity();
  int64_t steps_ = 0, sets_since_shrinking_ = 0;
  bool stuck_ = false;
};

} // namespace bridle
