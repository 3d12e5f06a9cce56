// Dual coordinate descent for each class against the rest, all of them at once: the rows, their
// costs and the order of the visits are shared, and a row is read once for as many classes as fit a
// cache line. Every class has a descent of its own, as in descent.hpp: its dual variables, weights,
// bias, first epoch and shrinking, by (row, class), are those it would have alone, with one block.
// Neither the threads nor how the classes are grouped change a bit of them. When few rows are left
// in play a class goes on alone: its weights fit a closer cache than those of all.
#pragma once

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "linear/dcd/buckets.hpp"
#include "linear/dcd/descent.hpp"
#include "linear/dcd/lanes.hpp"
#include "linear/dcd/state.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace bridle {

// What is known of a class after some visits.
struct ClassReport {
  int64_t visits = 0, active = 0; // so far; rows in play
  double gap = 0, dual = 0;       // P - D as the visits of this epoch saw it; D(alpha)
  bool whole = true;              // this epoch visits every row
};

// The gap of one class as some rows, drawn at random, show it, and standard errors: of all rows,
// and of those at rest.
struct ClassSample {
  double gap = 0, error = 0, resting = 0, resting_error = 0;
};

// Classes that are visited together.
template <class W> class ClassGroup {
public:
  struct Lane {
    ProximalBias bias;
    double separable = 0, squared_weights = 0;
    W shrink_beyond = std::numeric_limits<W>::infinity();
    double first_gap = 0; // after the first epoch
    int64_t visits = 0, active = 0;
    bool running = true, whole = true;

    double dual() const { return separable - 0.5 * squared_weights + bias.dual(); }
  };

  ClassGroup(Range classes, int64_t n_useful, const ProximalBias &bias)
      : classes_(classes), n_useful_(n_useful),
        lanes_(classes.end - classes.begin, Lane{.bias = bias, .active = n_useful}) {}
  virtual ~ClassGroup() = default;

  virtual void begin_epoch() = 0;
  // Visits these buckets; `first`: in the first epoch.
  virtual void visit(const Buckets &order, Range buckets, const FirstEpoch *first) = 0;
  // See DcdState::first_gap.
  virtual void end_first_pass() = 0;
  // sigma: that of a number of rows inside.
  virtual void end_epoch(FunctionRef<double(int64_t)> sigma, bool first) = 0;
  virtual void unshrink(int64_t k) = 0;
  // What the rows that begin here, `together` of them each, show of the gap of each class: the
  // sums, and the sums of squares, in place of the errors.
  virtual void sample(std::span<const int64_t> firsts, int64_t together,
                      std::span<ClassSample> sums) const = 0;
  virtual double gap(int64_t k) const = 0; // as the visits of this epoch saw it
  // The rows as class k sees them, and whether it visits them.
  virtual RawVector<DualRow<W>> rows_of(int64_t k) const = 0;
  virtual RawVector<uint8_t> in_play(int64_t k) const = 0;
  virtual LargeVector<W> weights_of(int64_t k) const = 0;
  virtual void alpha(int64_t k, double *out) const = 0;

  Lane &lane(int64_t k) { return lanes_[k - classes_.begin]; }
  const Lane &lane(int64_t k) const { return lanes_[k - classes_.begin]; }
  const Range &classes() const { return classes_; }
  bool any_running() const { return running() != 0; }
  int64_t work() const { return work_; } // rows visited

protected:
  LaneMask all_lanes() const { return (LaneMask{1} << (classes_.end - classes_.begin)) - 1; }

  LaneMask running() const {
    LaneMask mask = 0;
    for (size_t k = 0; k < lanes_.size(); ++k)
      mask |= LaneMask{lanes_[k].running} << k;
    return mask;
  }

  Range classes_;
  int64_t n_useful_;
  std::vector<Lane> lanes_;
  int64_t work_ = 0;
};

// A lane for each of n classes, or fewer.
template <class W, int n> class ClassLanes final : public ClassGroup<W> {
public:
  using Settings = LaneSettings<W, n>;
  template <class Sum> using Sums = LaneSums<W, n, Sum>;
  using typename ClassGroup<W>::Lane;

  ClassLanes(const RowsOf<W> &rows, std::span<const ClassRow<W>> facts, bool squared,
             int64_t n_features, int64_t n_useful, Range classes, const ProximalBias &bias)
      : ClassGroup<W>(classes, n_useful, bias), rows_(rows), facts_(facts), squared_(squared),
        w_(n_features + 1), alpha_(std::ssize(facts)), active_(facts.size()),
        n_features_(n_features) {
    for (size_t i = 0; i < facts.size(); ++i)
      active_[i] = facts[i].cost > 0 ? stored(this->all_lanes()) : stored(0);
  }

  RawVector<DualRow<W>> rows_of(int64_t k) const override {
    RawVector<DualRow<W>> rows(facts_.size());
    for (size_t i = 0; i < facts_.size(); ++i) {
      const W y = facts_[i].code == k ? W(1) : W(-1);
      rows[i] = {alpha_.line(i)[k - classes_.begin], facts_[i].squared_norm,
                 std::copysign(facts_[i].cost, y), W(0)};
    }
    return rows;
  }
  RawVector<uint8_t> in_play(int64_t k) const override {
    RawVector<uint8_t> found(facts_.size());
    for (size_t i = 0; i < facts_.size(); ++i)
      found[i] = (active_[i] >> (k - classes_.begin)) & 1;
    return found;
  }
  LargeVector<W> weights_of(int64_t k) const override {
    LargeVector<W> w(n_features_ + 1);
    for (int64_t j = 0; j < n_features_; ++j)
      w[j] = w_.line(j)[k - classes_.begin];
    return w;
  }
  void alpha(int64_t k, double *out) const override {
    for (size_t i = 0; i < facts_.size(); ++i)
      out[i] = alpha_.line(i)[k - classes_.begin];
  }
  double gap(int64_t k) const override { return sums_.gap[k - classes_.begin]; }

  void begin_epoch() override {
    sums_ = {};
    for (Lane &lane : lanes_)
      lane.whole = lane.active == n_useful_;
  }

  void visit(const Buckets &order, Range buckets, const FirstEpoch *first) override {
    Settings settings = make_settings();
    Sums<double> pass;
    for (int64_t b = buckets.begin; b < buckets.end; ++b) {
      if (first)
        set_scale(settings, pass, *first, b * order.bucket());
      Sums<W> sums;
      visit_rows({order.first_row(b), order.end_row(b)}, settings, sums);
      pass.add(sums);
    }
    for (size_t k = 0; k < lanes_.size(); ++k) {
      lanes_[k].bias.add(pass.balance[k]);
      lanes_[k].separable += pass.separable[k];
      lanes_[k].squared_weights += pass.squared[k];
      lanes_[k].visits += static_cast<int64_t>(pass.visits[k]);
    }
    sums_.add(pass);
  }

  void end_first_pass() override {
    sum_squares();
    for (size_t k = 0; k < lanes_.size(); ++k) {
      Lane &lane = lanes_[k];
      const double loss = 2 * sums_.gap[k], seen = loss + 0.5 * lane.squared_weights - lane.dual();
      lane.first_gap = lane.bias.present() ? loss : std::max(0.0, seen);
      inside_[k] = sums_.inside[k];
    }
    sums_ = {};
  }

  void end_epoch(FunctionRef<double(int64_t)> sigma, bool first) override {
    std::array<int64_t, n> active{};
    for (const LaneMask mask : active_)
      for (LaneMask left = mask; left; left &= left - 1)
        ++active[std::countr_zero(left)];
    for (size_t k = 0; k < lanes_.size(); ++k) {
      Lane &lane = lanes_[k];
      lane.active = active[k];
      if (!lane.running)
        continue;
      const double inside = first ? inside_[k] : sums_.inside[k];
      lane.bias.recentre(sigma(static_cast<int64_t>(inside)));
      lane.shrink_beyond = sums_.moved[k] > 0
                               ? static_cast<W>(std::sqrt(sums_.gradients[k] / sums_.moved[k]))
                               : std::numeric_limits<W>::infinity();
    }
  }

  void unshrink(int64_t k) override {
    const StoredMask bit = stored(LaneMask{1} << (k - classes_.begin));
    for (size_t i = 0; i < facts_.size(); ++i)
      if (facts_[i].cost > 0)
        active_[i] |= bit;
    this->lane(k).active = n_useful_;
    this->lane(k).squared_weights = squares()[k - classes_.begin];
  }

  void sample(std::span<const int64_t> firsts, int64_t together,
              std::span<ClassSample> sums) const override {
    static const auto best = widest<Sample>(sample_any, sample_v3, sample_v4);
    best(*this, firsts, together, sums);
  }

private:
  using ClassGroup<W>::classes_, ClassGroup<W>::lanes_, ClassGroup<W>::n_useful_,
      ClassGroup<W>::work_;

  int own_lane(int64_t i) const {
    const int64_t k = facts_[i].code - classes_.begin;
    return k >= 0 && k < n ? static_cast<int>(k) : n;
  }

  Settings make_settings() const {
    Settings settings{.squared = squared_};
    for (size_t k = 0; k < lanes_.size(); ++k) {
      settings.bias[k] = static_cast<W>(lanes_[k].bias.value());
      settings.response[k] = static_cast<W>(lanes_[k].bias.response());
      settings.shrink_beyond[k] = lanes_[k].shrink_beyond;
    }
    return settings;
  }

  void set_scale(Settings &settings, Sums<double> &pass, const FirstEpoch &first,
                 int64_t seen) const {
    const double scale = first.scale_after(seen);
    settings.scale = static_cast<W>(scale);
    for (size_t k = 0; k < lanes_.size(); ++k) {
      settings.bias[k] = static_cast<W>(lanes_[k].bias.value(scale, pass.balance[k]));
      if (2 * seen < first.rows_in_all)
        pass.gap[k] = 0;
    }
  }

  [[gnu::always_inline]] inline void dot(int64_t i, W *score) const {
    with_rows<W>(rows_, [&](const auto &rows) __attribute__((always_inline)) {
      lane_dot<W, n>(rows, i, w_.lines(), score);
    });
  }
  [[gnu::always_inline]] inline void add(int64_t i, const W *steps) {
    with_rows<W>(rows_, [&](const auto &rows) __attribute__((always_inline)) {
      lane_add<W, n>(rows, i, steps, w_.lines());
    });
  }
  [[gnu::always_inline]] inline void prefetch(int64_t i) const {
    with_rows<W>(rows_, [&](const auto &rows) __attribute__((always_inline)) { rows.prefetch(i); });
  }
  [[gnu::always_inline]] inline void prefetch_weights(int64_t i) const {
    with_rows<W>(rows_, [&](const auto &rows) __attribute__((always_inline)) {
      bridle::prefetch_weights<W, n>(rows, i, w_.lines());
    });
  }

  using Visit = void(ClassLanes &, Range, Settings &, Sums<W> &);

  void visit_rows(Range range, Settings &settings, Sums<W> &sums) {
    static const auto best = widest<Visit>(visit_any, visit_v3, visit_v4);
    best(*this, range, settings, sums);
  }
  static void visit_any(ClassLanes &g, Range r, Settings &s, Sums<W> &sums) {
    g.visit_by_lanes(r, s, sums);
  }
  BRIDLE_V3 static void visit_v3(ClassLanes &g, Range r, Settings &s, Sums<W> &sums) {
    g.visit_by_lanes(r, s, sums);
  }
  BRIDLE_V4 static void visit_v4(ClassLanes &g, Range r, Settings &s, Sums<W> &sums) {
    g.visit_by_lanes(r, s, sums);
  }

  [[gnu::always_inline]] inline void visit_by_lanes(Range range, Settings &settings,
                                                    Sums<W> &sums) {
    constexpr int64_t weights_ahead = 2;
    const LaneMask lanes = this->running();
    alignas(64) W score[n], steps[n];
    // First those that are to be visited, so that memory is asked for what comes next of them.
    due_.clear();
    for (int64_t i = range.begin; i < range.end; ++i)
      if (active_[i] & lanes) {
        due_.push_back(i);
        prefetch(i);
      }
    work_ += std::ssize(due_);
    for (int64_t d = 0; d < std::ssize(due_); ++d) {
      if (d + weights_ahead < std::ssize(due_)) {
        prefetch_weights(due_[d + weights_ahead]);
        __builtin_prefetch(alpha_.line(due_[d + weights_ahead]));
      }
      const int64_t i = due_[d];
      dot(i, score);
      const auto [resting, moved] = step_lanes(facts_[i], own_lane(i), active_[i] & lanes, score,
                                               alpha_.line(i), steps, settings, sums);
      active_[i] &= stored(~resting);
      if (moved)
        add(i, steps);
    }
  }

  using Found = std::span<ClassSample>;
  using Sample = void(const ClassLanes &, std::span<const int64_t>, int64_t, Found);

  static void sample_any(const ClassLanes &g, std::span<const int64_t> f, int64_t t, Found s) {
    g.sample_by_lanes(f, t, s);
  }
  BRIDLE_V3 static void sample_v3(const ClassLanes &g, std::span<const int64_t> f, int64_t t,
                                  Found s) {
    g.sample_by_lanes(f, t, s);
  }
  BRIDLE_V4 static void sample_v4(const ClassLanes &g, std::span<const int64_t> f, int64_t t,
                                  Found s) {
    g.sample_by_lanes(f, t, s);
  }

  [[gnu::always_inline]] inline void sample_by_lanes(std::span<const int64_t> firsts,
                                                     int64_t together, Found sums) const {
    const Settings settings = make_settings();
    alignas(64) W score[n];
    for (const int64_t first : firsts) {
      const int64_t end = std::min(first + together, std::ssize(facts_));
      alignas(64) W all[n] = {}, resting[n] = {};
      for (int64_t i = first; i < end; ++i)
        prefetch(i);
      for (int64_t i = first; i < end; ++i) {
        if (i + 1 < end)
          prefetch_weights(i + 1);
        const LaneLoss<W> loss(squared_, facts_[i].cost);
        if (!(loss.cost > 0))
          continue;
        dot(i, score);
        const W *alpha = alpha_.line(i);
        const int own = own_lane(i);
        const LaneMask active = active_[i];
#pragma omp simd
        for (int k = 0; k < n; ++k) {
          const W y = k == own ? W(1) : W(-1);
          const W gap = loss.gap(y * (score[k] + settings.bias[k]), alpha[k]);
          all[k] += gap;
          resting[k] += (active >> k) & 1 ? W(0) : gap;
        }
      }
      for (size_t k = 0; k < sums.size(); ++k) {
        const double here = all[k], at_rest = resting[k];
        sums[k].gap += here;
        sums[k].error += here * here;
        sums[k].resting += at_rest;
        sums[k].resting_error += at_rest * at_rest;
      }
    }
  }

  std::array<double, n> squares() const {
    std::array<double, n> sum{};
    for (int64_t j = 0; j <= n_features_; ++j)
      for (int k = 0; k < n; ++k)
        sum[k] += static_cast<double>(w_.line(j)[k]) * static_cast<double>(w_.line(j)[k]);
    return sum;
  }

  void sum_squares() {
    const auto sum = squares();
    for (size_t k = 0; k < lanes_.size(); ++k)
      lanes_[k].squared_weights = sum[k];
  }

  RowsOf<W> rows_;
  std::span<const ClassRow<W>> facts_;
  bool squared_;
  LaneTable<W, n> w_, alpha_; // a line for each feature, for each row
  LargeVector<StoredMask> active_;
  int64_t n_features_;
  Sums<double> sums_;              // of the epoch at hand
  std::array<double, n> inside_{}; // after the first pass
  std::vector<int64_t> due_;
};

class ClassDescents {
public:
  const int64_t n_rows, n_weights, n_classes;

  ClassDescents(int64_t rows, int64_t weights, int64_t classes)
      : n_rows(rows), n_weights(weights), n_classes(classes) {}
  virtual ~ClassDescents() = default;
  // Visits the next `share` of an epoch, all of it if that is the first one, for the classes that
  // run; returns whether an epoch is over.
  virtual bool visit(Rng &rng, int64_t bucket, double share) = 0;
  virtual ClassReport report(int64_t k) const = 0;
  // Of about n rows.
  virtual std::vector<ClassSample> sample(Rng &rng, int64_t n) const = 0;
  // Rows visited so far, each for a group of classes; groups of which a class is running.
  virtual int64_t work() const = 0;
  virtual int64_t n_groups() const = 0;
  virtual void run(int64_t k, bool running) = 0;
  virtual void unshrink(int64_t k) = 0;
  // Class k from where it is now, on its own: worth it when few rows are left in play, of which
  // those of other classes are others.
  virtual std::unique_ptr<DualCoordinateDescent> alone(int64_t k) const = 0;
  virtual void alpha(int64_t k, double *out) const = 0;
  virtual void weights(int64_t k, double *out) const = 0;
  virtual double bias(int64_t k) const = 0;
};

// How many lanes a group has, in parts of a cache line: what it takes by so many threads is least.
// One visit for a whole line of classes takes as long as 1.75 of half, or 2.9 of a quarter
// (measured on short texts), but there are fewer groups to go round.
inline int line_parts(int64_t classes, int64_t line, int64_t n_threads) {
  const int64_t at_once = std::max<int64_t>(n_threads, 1);
  constexpr std::pair<int, double> choices[] = {{1, 1.0}, {2, 0.57}, {4, 0.34}};
  const auto seconds = [&](const auto &choice) {
    const auto [parts, each] = choice;
    const int64_t groups = (classes * parts + line - 1) / line;
    return static_cast<double>((groups + at_once - 1) / at_once) * each;
  };
  const auto sooner = [&](const auto &a, const auto &b) { return seconds(a) < seconds(b); };
  return std::min_element(std::begin(choices), std::end(choices), sooner)->first;
}

template <class W> class ClassDescentsOf final : public ClassDescents {
public:
  // squared: of the two hinges. costs: C_i. codes: the class of each row; a row of no class is of
  // the rest everywhere. squared_norms: with the constant feature, where the bias has one.
  template <RowsLike Rows>
  ClassDescentsOf(const Rows &rows, bool squared, const double *costs, const int64_t *codes,
                  const double *squared_norms, int64_t classes, double bias_precision,
                  int n_threads)
      : ClassDescents(rows.n_rows, rows.n_features + 1, classes), rows_(without_constant(rows)),
        squared_(squared), facts_(rows.n_rows), n_threads_(n_threads) {
    for (int64_t i = 0; i < n_rows; ++i) {
      const double norm = squared_norms[i] - rows.bias * rows.bias;
      const bool known = codes[i] >= 0 && codes[i] < classes;
      facts_[i] = {static_cast<W>(norm), static_cast<W>(costs[i]),
                   known ? static_cast<int32_t>(codes[i]) : -1};
      n_useful_ += facts_[i].cost > 0;
      mean_norm_ += norm / static_cast<double>(n_rows);
      mean_cost_ += costs[i] / static_cast<double>(n_rows);
    }
    first_ = FirstEpoch::of(n_rows, mean_cost_, mean_norm_);
    ProximalBias bias{bias_precision, 0};
    bias.start(sigma(n_useful_ / 10));
    constexpr int line = n_lanes<W>;
    const int lanes = line / line_parts(classes, line, n_threads);
    const int64_t n_groups = (classes + lanes - 1) / lanes;
    groups_.resize(n_groups);
    for_blocks(n_groups, n_threads, [&](int64_t g) {
      const Range own = block_range(classes, n_groups, g);
      groups_[g] = lanes == line       ? group<line>(own, bias)
                   : lanes == line / 2 ? group<line / 2>(own, bias)
                                       : group<line / 4>(own, bias);
    });
  }

  bool visit(Rng &rng, int64_t bucket, double share) override {
    const bool begins = order_.between_epochs();
    if (begins)
      order_.shuffle(rng, n_rows, bucket);
    const bool first = first_.has_value();
    const Range buckets = order_.next(first ? 1.0 : share);
    const bool finished = order_.between_epochs();
    for_groups([&](ClassGroup<W> &group) {
      if (begins)
        group.begin_epoch();
      group.visit(order_, buckets, first ? &*first_ : nullptr);
      if (first) { // the rows that came first knew least of w: an eighth is visited again
        group.end_first_pass();
        group.visit(order_, {0, (buckets.end + 7) / 8}, nullptr);
      }
      if (finished)
        group.end_epoch([this](int64_t inside) { return sigma(inside); }, first);
    });
    first_now_ = first;
    first_.reset();
    return finished;
  }

  ClassReport report(int64_t k) const override {
    const ClassGroup<W> &group = group_of(k);
    const auto &lane = group.lane(k);
    const double gap = first_now_ ? lane.first_gap : group.gap(k) + lane.bias.gap();
    return {lane.visits, lane.active, gap, lane.dual(), lane.whole};
  }

  std::vector<ClassSample> sample(Rng &rng, int64_t n) const override {
    constexpr int64_t together = 8;
    const int64_t n_all = (n_rows + together - 1) / together;
    const int64_t n_drawn = std::min(n_all, (n + together - 1) / together);
    std::vector<int64_t> firsts(n_drawn);
    for (int64_t &first : firsts)
      first = static_cast<int64_t>(rng.below(n_all)) * together;
    if (n_drawn == n_all) // all of them
      for (int64_t d = 0; d < n_drawn; ++d)
        firsts[d] = d * together;
    std::vector<ClassSample> found(n_classes);
    for_groups([&](const ClassGroup<W> &group) {
      const auto [begin, end] = group.classes();
      const std::span own(found.data() + begin, found.data() + end);
      group.sample(firsts, together, own);
      for (int64_t k = begin; k < end; ++k)
        found[k] = estimate(found[k], n_drawn, n_all, group.lane(k).bias.gap());
    });
    return found;
  }

  int64_t work() const override {
    int64_t sum = 0;
    for (const auto &group : groups_)
      sum += group->work();
    return sum;
  }
  int64_t n_groups() const override {
    return std::count_if(groups_.begin(), groups_.end(),
                         [](const auto &group) { return group->any_running(); });
  }

  void run(int64_t k, bool running) override {
    auto &lane = group_of(k).lane(k);
    lane.whole &= lane.running || !running; // it has missed a part of the epoch
    lane.running = running;
  }
  void unshrink(int64_t k) override { group_of(k).unshrink(k); }

  std::unique_ptr<DualCoordinateDescent> alone(int64_t k) const override {
    const ClassGroup<W> &group = group_of(k);
    const auto &lane = group.lane(k);
    DcdState<W> state{.w = group.weights_of(k),
                      .bias = lane.bias,
                      .mean_norm = mean_norm_,
                      .mean_cost = mean_cost_,
                      .separable = lane.separable,
                      .squared_weights = lane.squared_weights,
                      .shrink_beyond = lane.shrink_beyond};
    const AnyLoss loss = squared_ ? AnyLoss(SquaredHinge{}) : AnyLoss(Hinge{});
    return std::visit(
        [&](const auto &rows) -> std::unique_ptr<DualCoordinateDescent> {
          using Rows = std::decay_t<decltype(rows)>;
          ResidentRows<Rows> own(rows, group.rows_of(k), group.in_play(k));
          return std::make_unique<DcdOn<Rows>>(std::move(own), steps_by<Rows>(loss),
                                               std::move(state));
        },
        rows_);
  }

  void alpha(int64_t k, double *out) const override { group_of(k).alpha(k, out); }
  void weights(int64_t k, double *out) const override {
    const auto w = group_of(k).weights_of(k);
    std::copy(w.begin(), w.end(), out);
    out[n_weights - 1] = group_of(k).lane(k).bias.weight();
  }
  double bias(int64_t k) const override { return group_of(k).lane(k).bias.value(); }

private:
  double sigma(int64_t inside) const { return proximal_sigma(mean_norm_, mean_cost_, inside); }

  template <int n>
  std::unique_ptr<ClassGroup<W>> group(Range classes, const ProximalBias &bias) const {
    return std::make_unique<ClassLanes<W, n>>(rows_, facts_, squared_, n_weights - 1, n_useful_,
                                              classes, bias);
  }

  static ClassSample estimate(ClassSample sums, int64_t n_drawn, int64_t n_all, double bias_gap) {
    const auto drawn = static_cast<double>(n_drawn), all = static_cast<double>(n_all);
    auto error = [&](double sum, double squares) {
      const double mean = sum / drawn, variance = std::max(0.0, squares / drawn - mean * mean);
      return n_drawn < n_all ? all * std::sqrt(variance / drawn) : 0.0;
    };
    return {all / drawn * sums.gap + bias_gap, error(sums.gap, sums.error),
            all / drawn * sums.resting, error(sums.resting, sums.resting_error)};
  }

  ClassGroup<W> &group_of(int64_t k) const {
    int64_t g = 0;
    while (k >= groups_[g]->classes().end)
      ++g;
    return *groups_[g];
  }

  // Those of which a class is running.
  template <class Work> void for_groups(Work &&work) const {
    for_blocks(std::ssize(groups_), n_threads_, [&](int64_t g) {
      if (groups_[g]->any_running())
        work(*groups_[g]);
    });
  }

  RowsOf<W> rows_;
  bool squared_;
  LargeVector<ClassRow<W>> facts_;
  int n_threads_;
  int64_t n_useful_ = 0;
  double mean_norm_ = 0, mean_cost_ = 0;
  std::optional<FirstEpoch> first_;
  bool first_now_ = false; // the last visit was that of the first epoch
  std::vector<std::unique_ptr<ClassGroup<W>>> groups_;
  Buckets order_;
};

} // namespace bridle
