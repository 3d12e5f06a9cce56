// Visits by many threads: the rows of a round all step from the same w, and then w follows, each
// thread adding what all of them did to its own range of features, as they have sent it. Every
// weight receives its terms in the order of the rows, so the result does not depend on the threads.
//
// A round is so short that its rows do not stand in each other's way. What they do to each other is
// their number times what rows have in common (overlap.hpp), less where costs are small, since no
// alpha moves by more than its cost. (Measured on texts, C from 0.01 to 1: the number below takes
// as many epochs as one row at a time, twice it a few more, four times it does not converge.) After
// several rounds their steps together are measured: they are taken as far as the dual rises, and
// rounds become shorter where that is not, or hardly, all the way, and longer where it is more.
#pragma once

#include "linear/dcd/visit.hpp"
#include "rows/overlap.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace bridle {

template <RowsLike Rows> class RoundVisits {
public:
  using W = typename Rows::Value;
  using Pass = DcdPass<W>;
  using State = DcdState<W>;
  using Active = ActiveRows<Rows>;
  using Steps = LossSteps<Rows>;

  explicit RoundVisits(int n_threads) : n_threads_(n_threads) {} // none
  // Of a loss with a quadratic dual, which is known along a step, and with it how far to go.
  RoundVisits(const Steps &loss, const Rows &rows, bool columns_in_order, int n_threads)
      : RoundVisits(n_threads) {
    constexpr int64_t most_features = std::numeric_limits<int32_t>::max();
    if (!loss.quadratic() || !columns_in_order || rows.n_features > most_features ||
        rows.nnz() < least_work * least_rounds)
      return;
    overlap_ = overlap(rows);
    bounds_ = even_features(rows, n_parts);
  }

  // Whether these rows are visited in rounds: there are many of them, and a round of them, of the
  // length that does no harm, is worth several threads.
  bool suit(const Active &rows, const State &state) const {
    if (bounds_.empty() || rows.size() == 0)
      return false;
    const double work = work_of_round(rows, state), weights = static_cast<double>(state.w.size());
    return length(rows, state) >= shortest && work >= std::max<double>(least_work, 0.4 * weights);
  }

  Pass visit(const Steps &loss, Active &rows, const Buckets &order, Range buckets, State &state) {
    Visit visit(*this, loss, rows, order, order.places_of(buckets), state);
    return visit.run();
  }

private:
  static constexpr int64_t n_parts = 16;   // of a round: as many threads can work on it
  static constexpr int64_t shortest = 128; // rows of a round
  static constexpr int64_t least_work = 1 << 13, least_rounds = 128; // non-zeros; in an epoch
  // In the first epoch from zero, the rows of a round, as a part of those that were seen before.
  static constexpr int64_t of_seen = 8;

  // How many rows may step from the same w.
  double length(const Active &rows, const State &state) const {
    const double norm = state.mean_norm, firm = state.mean_cost * norm;
    const double in_common = overlap_ + (norm > 0 ? state.bias.response() / norm : 0.0);
    const double harmless = (5.6 + (firm > 0 ? 0.5 / firm : 0.0)) / in_common;
    return std::min(stretch_ * harmless, static_cast<double>(rows.size() / least_rounds));
  }

  // Non-zeros.
  double work_of_round(const Active &rows, const State &state) const {
    return length(rows, state) * static_cast<double>(rows.nnz) / static_cast<double>(rows.size());
  }

  // To hand w over after each round, from the cache of each thread to those of the others, takes as
  // long as 6 non-zeros for each line of 16 weights: what several threads save must be more.
  int members(const Active &rows, const State &state) const {
    const double saved = work_of_round(rows, state) * (1 - 1 / static_cast<double>(n_threads_));
    return saved > 6.0 / 16 * static_cast<double>(state.w.size()) ? n_threads_ : 1;
  }

  // Where the steps together wanted to go much further than they did, rounds may be longer.
  void adapt(double eta) {
    const double factor = eta < 1 ? 0.6 : eta < 1.15 ? 0.8 : eta > 1.5 ? 1.15 : 1.0;
    stretch_ = std::min(3.0, factor * stretch_);
  }

  // Ranges of features for so many members; none for one, who needs no cuts.
  std::vector<int64_t> bounds_of(int64_t n_members) const {
    std::vector<int64_t> bounds;
    for (int64_t m = 0; m <= n_members && n_members > 1; ++m)
      bounds.push_back(bounds_[n_parts * m / n_members]);
    return bounds;
  }

  struct Step {
    int64_t index, at; // among the active rows; in the view
    W before, delta;   // alpha before; y times its change
  };

  // What a part of a round did, and what that adds to the features of each member.
  struct alignas(64) Part {
    Pass pass;
    std::vector<Step> steps;                       // since they were last measured
    std::array<RawVector<Term<W>>, n_parts> terms; // of the round
    size_t first = 0;                              // step of the round
    double length = 0, change = 0; // of its slice of w: |dw|^2, and the change of |w|^2
  };

  class Visit {
  public:
    Visit(RoundVisits &how, const Steps &loss, Active &rows, const Buckets &order, Range places,
          State &state)
        : how_(how), loss_(loss), rows_(rows), order_(order), places_(places), state_(state),
          w_(state.w),
          settings_{{.later = true}, static_cast<W>(state.bias.response()), state.shrink_beyond} {
      const auto stretch = static_cast<double>(rows.size()) / static_cast<double>(rows.nnz + 1);
      measured_every_ = static_cast<int64_t>(16 * stretch * static_cast<double>(w_.size())) + 1;
      measured_every_ = std::min(measured_every_, rows.size() / 8);
      how_.before_.resize(w_.size());
    }

    Pass run() {
      first_rows();
      if (places_.begin == places_.end)
        return total_;
      bias_before_ = state_.bias.value();
      measured_ = places_.begin;
      begin_round();
      together(n_parts, how_.members(rows_, state_), [&](Member &member) {
        const std::vector<int64_t> bounds = how_.bounds_of(member.size);
        std::vector<W> own(member.size > 1 ? w_.size() : 0);
        member.each([&](int64_t part) { remember(part); });
        while (member.going() && !over_) {
          W *w = w_.data();
          if (is_worth_a_copy(member.size)) {
            std::copy(w_.begin(), w_.end(), own.begin());
            w = own.data();
          }
          member.each([&](int64_t part) { visit_part(part, bounds, w); });
          member.meet();
          member.once([&] { follow(member); });
          member.meet([&] { end_round(); });
          if (!measure_ || !member.going())
            continue;
          member.each([&](int64_t part) { measure(part); });
          member.meet([&] { search(); });
          if (eta_ < 1) {
            member.each([&](int64_t part) { shorten(part); });
            member.meet();
          }
          member.each([&](int64_t part) { remember(part); });
        }
      });
      return total_;
    }

  private:
    // The first rows of all are visited one at a time: every one says much of what others do.
    void first_rows() {
      if (!state_.first)
        return;
      const int64_t end = of_seen * shortest - state_.first->rows_seen;
      const Range alone{places_.begin, std::clamp(end, places_.begin, places_.end)};
      total_.bias = static_cast<W>(state_.bias.value());
      loss_.visit(rows_, order_, alone, {{}, settings_.response, settings_.shrink_beyond}, total_,
                  w_.data(),
                  [&](Pass &pass, int64_t b) {
                    state_.first->set_scale(pass, state_.bias,
                                            state_.first->rows_seen + b * order_.bucket());
                  },
                  {});
      state_.take(total_);
      places_.begin = alone.end;
    }

    // The next rows, and what they see.
    void begin_round() {
      auto n = static_cast<int64_t>(how_.length(rows_, state_));
      start_ = {};
      start_.bias = static_cast<W>(state_.bias.value());
      if (state_.first) {
        const int64_t seen = state_.first->rows_seen + places_.begin;
        start_.gap = total_.gap;
        state_.first->set_scale(start_, state_.bias, seen);
        total_.gap = std::exchange(start_.gap, 0.0);
        n = std::min(n, seen / of_seen);
      }
      n = std::max(n, shortest);
      round_ = {places_.begin, std::min(places_.end, places_.begin + n)};
    }

    // After each round, w is in the caches of all members. To fetch it in order takes half as long
    // as entry by entry, if most of it is wanted.
    bool is_worth_a_copy(int64_t n_members) const {
      const auto wanted = static_cast<double>(round_.end - round_.begin) *
                          static_cast<double>(rows_.nnz) / static_cast<double>(rows_.size());
      return n_members > 1 && 8 * wanted > static_cast<double>(n_members * std::ssize(w_));
    }

    void visit_part(int64_t number, const std::vector<int64_t> &bounds, W *w) {
      const auto [begin, end] = block_range(round_.end - round_.begin, n_parts, number);
      Part &part = parts_[number];
      Pass pass = start_;
      part.first = part.steps.size();
      for (auto &terms : part.terms)
        terms.clear();
      loss_.visit(rows_, order_, {round_.begin + begin, round_.begin + end}, settings_, pass, w, {},
                  [&](int64_t j, W before) {
                    const ActiveRow<W> &row = rows_.active[j];
                    part.steps.push_back({j, row.at, before, row.label() * (row.alpha - before)});
                    send(part.steps.back(), bounds, part);
                  });
      part.pass = pass;
    }

    // What a step adds to w, to the members to whom the features belong.
    void send(const Step &step, const std::vector<int64_t> &bounds, Part &part) {
      std::array<int64_t, n_parts + 1> cuts;
      const int64_t n_bounds = std::ssize(bounds);
      rows_.view.cut(step.at, bounds.data(), n_bounds, cuts.data());
      for (int64_t m = 0; m + 1 < n_bounds; ++m) {
        auto &terms = part.terms[m];
        const size_t n = terms.size();
        terms.resize(n + (cuts[m + 1] - cuts[m]));
        rows_.view.scaled(step.at, {cuts[m], cuts[m + 1]}, step.delta, terms.data() + n);
      }
    }

    // w += sum delta x, of this member's features.
    void follow(const Member &member) {
      constexpr size_t ahead = 6;
      for (const Part &part : parts_) {
        for (const Term<W> &term : part.terms[member.number])
          w_[term.feature] += term.value;
        // Alone, there is nobody to send terms to.
        for (size_t k = part.first; member.size == 1 && k < part.steps.size(); ++k) {
          if (k + ahead < part.steps.size())
            rows_.view.prefetch(part.steps[k + ahead].at);
          rows_.view.add(part.steps[k].at, part.steps[k].delta, w_.data());
        }
      }
    }

    void end_round() {
      Pass round;
      for (const Part &part : parts_)
        round = round.then(part.pass);
      state_.bias.add(round.balance);
      since_ = since_.then(round);
      total_ = total_.then(round);
      places_.begin = round_.end;
      over_ = places_.begin == places_.end;
      measure_ = over_ || places_.begin - measured_ >= measured_every_;
      if (!over_)
        begin_round();
    }

    void measure(int64_t number) {
      const Range part = block_range(std::ssize(w_), n_parts, number);
      double length = 0, change = 0;
#pragma omp simd reduction(+ : length, change)
      for (int64_t j = part.begin; j < part.end; ++j) {
        const double before = how_.before_[j], step = w_[j] - before;
        length += step * step;
        change += step * (2 * before + step);
      }
      parts_[number].length = length;
      parts_[number].change = change;
    }

    // The steps since the last time, as far as the dual rises: D(eta) = D + eta g - eta^2/2 h is
    // exact, and eta = min(1, g/h). Those of the first epoch are for a dual with other costs: they
    // are taken as they are.
    void search() {
      double length = 0, change = 0;
      for (const Part &part : parts_) {
        length += part.length;
        change += part.change;
      }
      const double balance = since_.balance, response = state_.bias.response();
      const double h = length + since_.curved + response * balance * balance;
      const double rise = since_.separable - 0.5 * change - bias_before_ * balance -
                          0.5 * response * balance * balance;
      eta_ = h > 0 && !state_.first ? std::max(0.0, (rise + 0.5 * h) / h) : 1.0;
      if (h > 0 && !state_.first)
        how_.adapt(eta_);
      if (eta_ < 1) {
        change = eta_ * (change - length) + eta_ * eta_ * length;
        since_.separable = eta_ * since_.separable + 0.5 * (eta_ - eta_ * eta_) * since_.curved;
        state_.bias.add((eta_ - 1) * balance);
        if (!over_)
          begin_round(); // with another bias
      }
      state_.separable += since_.separable;
      state_.squared_weights += change;
      since_ = {};
      bias_before_ = state_.bias.value();
      measured_ = places_.begin;
    }

    // Goes only eta of the way.
    void shorten(int64_t number) {
      for (const Step &step : parts_[number].steps) {
        ActiveRow<W> &row = rows_.active[step.index];
        row.alpha = step.before + static_cast<W>(eta_) * (row.alpha - step.before);
      }
      const auto [begin, end] = block_range(std::ssize(w_), n_parts, number);
      for (int64_t j = begin; j < end; ++j)
        w_[j] = how_.before_[j] + static_cast<W>(eta_) * (w_[j] - how_.before_[j]);
    }

    // Where the next steps are measured from.
    void remember(int64_t number) {
      const auto [begin, end] = block_range(std::ssize(w_), n_parts, number);
      std::copy(w_.begin() + begin, w_.begin() + end, how_.before_.begin() + begin);
      parts_[number].steps.clear();
    }

    RoundVisits &how_;
    const Steps &loss_;
    Active &rows_;
    const Buckets &order_;
    Range places_; // that are left
    State &state_;
    LargeVector<W> &w_;
    const StepSettings<W> settings_;
    Pass total_, since_; // of all rounds; since the steps were last measured
    Pass start_;         // what the rows of the round see of the bias and the scale
    Range round_{0, 0};
    std::array<Part, n_parts> parts_;
    double bias_before_ = 0, eta_ = 1;
    int64_t measured_every_, measured_ = 0;
    bool measure_ = false, over_ = false;
  };

  int n_threads_;
  double overlap_ = 1, stretch_ = 1; // see `length`
  std::vector<int64_t> bounds_; // of ranges of features that are about as busy; none: no rounds
  std::vector<W> before_;       // w when the steps were last measured
};

} // namespace bridle
