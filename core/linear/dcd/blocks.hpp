// Visits by several threads: the rows of an epoch are visited by blocks, at the same time, each
// with a copy of w, and what they found is summed many times an epoch (CoCoA+, Ma, Smith, Jaggi et
// al., ICML 2015, with an exact line search). The blocks are a parameter; the result does not
// depend on the threads.
#pragma once

#include "base/parallel.hpp"
#include "linear/dcd/visit.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace bridle {

template <RowsLike Rows> class BlockVisits {
public:
  using W = typename Rows::Value;
  using Pass = DcdPass<W>;
  using State = DcdState<W>;
  using Active = ActiveRows<Rows>;
  using Steps = LossSteps<Rows>;

  BlockVisits(int64_t n_blocks, int n_threads) : n_blocks_(n_blocks), n_threads_(n_threads) {}

  // Visits these buckets, by blocks if that is worth it; the state takes what they found.
  Pass visit(const Steps &loss, Active &rows, const Buckets &order, Range buckets, State &state) {
    if (const int64_t n = n_rounds(rows, order, buckets, state); n > 1)
      return visit_in_rounds(loss, rows, order, buckets, n, state);
    caution_ = {};
    const auto scale = scaling(order, state, 0);
    const Pass pass = loss.visit_buckets(rows, order, buckets, settings(state),
                                         static_cast<W>(state.bias.value()), state.w.data(),
                                         begin(scale, state), {});
    state.take(pass);
    return pass;
  }

private:
  // Exchanges in an epoch; non-zeros that a block reads between two, for each weight.
  static constexpr double least_rounds = 16, least_per_weight = 4;
  // Less than this is not worth a thread; of fewer rows, each says too much of what others do.
  static constexpr double least_work = 1 << 13;
  static constexpr int64_t least_rows = 1 << 14;

  struct Undo {
    int64_t index; // among the active rows
    W alpha;       // before the step
  };

  struct StepLengths {
    double length;  // |sum of dw|^2
    double squared; // change of |w|^2
  };

  StepSettings<W> settings(const State &state) const {
    return {caution_, static_cast<W>(state.bias.response()), state.shrink_beyond};
  }

  // unseen: how many of the buckets before a block's own are not part of its w.
  static auto scaling(const Buckets &order, const State &state, int64_t unseen) {
    return [&, unseen](Pass &pass, int64_t b) {
      state.first->set_scale(pass, state.bias,
                             state.first->rows_seen + (b - unseen) * order.bucket());
    };
  }
  // Nothing is scaled after the first epoch.
  template <class Scale> static BeginBucket<W> begin(const Scale &scale, const State &state) {
    return state.first ? BeginBucket<W>(scale) : BeginBucket<W>();
  }

  // How often the blocks exchange what they find in these buckets. What rows can do to w before the
  // others know of it is their number times C |x|^2: about 128 of that does no harm, if it is also
  // a small part of all rows (measured on texts). To exchange more often than every so many
  // non-zeros would cost more than it saves.
  int64_t n_rounds(const Active &rows, const Buckets &order, Range buckets,
                   const State &state) const {
    if (n_blocks_ == 1 || rows.size() < least_rows || rows.nnz == 0)
      return 1;
    const double all = static_cast<double>(rows.nnz), weights = static_cast<double>(state.w.size());
    const double share = all / static_cast<double>(n_blocks_);
    const double harmless =
        128 / (state.mean_cost * state.mean_norm) * all / static_cast<double>(rows.size());
    const double least = std::max(least_work, least_per_weight * weights);
    const double work = std::max(least, std::min(harmless, share / least_rounds));
    if (share < least_rounds * work)
      return 1;
    const double part =
        static_cast<double>(buckets.end - buckets.begin) / static_cast<double>(order.size());
    return static_cast<int64_t>(part * share / work);
  }

  // Blocks of rows at the same time, each with a copy of w; then all their steps together, as far
  // as the dual rises: D(eta) = D + eta g - eta^2/2 h, or more where the loss's part of it bends
  // elsewhere than in h, and eta = min(1, g/h). The blocks
  // do not depend on the number of threads, nor does the result.
  Pass visit_in_rounds(const Steps &loss, Active &rows, const Buckets &order, Range buckets,
                       int64_t n_rounds, State &state) {
    std::vector<Pass> passes(n_blocks_);
    std::vector<StepLengths> lengths(n_blocks_);
    undo_.resize(n_blocks_);
    local_.resize(n_blocks_);
    const int64_t n_buckets = buckets.end - buckets.begin;
    Pass sum;
    auto work = [&](int64_t round, int64_t k) {
      local_[k] = state.w;
      undo_[k].clear();
      const Range all = block_range(n_buckets, n_rounds, round);
      const Range mine = block_range(all.end - all.begin, n_blocks_, k);
      const int64_t first = buckets.begin + all.begin;
      // Of the rows of this round, a block knows those that it has visited itself.
      const auto scale = scaling(order, state, mine.begin);
      passes[k] = loss.visit_buckets(rows, order, {first + mine.begin, first + mine.end},
                                     settings(state), static_cast<W>(state.bias.value()),
                                     local_[k].data(), begin(scale, state),
                                     [&](int64_t j, W before) { undo_[k].push_back({j, before}); });
    };
    auto exchange = [&](int64_t part) { lengths[part] = sum_steps(part, state.w); };
    auto conclude = [&] { sum = sum.then(take_all(rows, passes, lengths, state)); };
    in_rounds(n_rounds, n_blocks_, n_threads_, work, exchange, conclude);
    return sum;
  }

  // One of n_blocks_ parts of local_[0] <- w + sum_k dw_k
  StepLengths sum_steps(int64_t part, const LargeVector<W> &from) {
    constexpr int64_t chunk = 512;
    W steps[chunk];
    const auto [begin, end] = block_range(std::ssize(from), n_blocks_, part);
    double length = 0, squared = 0;
    for (int64_t at = begin; at < end; at += chunk) {
      const int64_t n = std::min(chunk, end - at);
      const W *w = from.data() + at;
      std::fill_n(steps, n, W(0));
      for (const LargeVector<W> &own : local_)
        for (int64_t j = 0; j < n; ++j)
          steps[j] += own[at + j] - w[j];
      W *out = local_[0].data() + at;
#pragma omp simd reduction(+ : length, squared)
      for (int64_t j = 0; j < n; ++j) {
        const W step = steps[j] / caution_.times;
        out[j] = w[j] + step;
        length += static_cast<double>(step) * static_cast<double>(step);
        squared +=
            static_cast<double>(step) * (2 * static_cast<double>(w[j]) + static_cast<double>(step));
      }
    }
    return {length, squared};
  }

  Pass take_all(Active &rows, const std::vector<Pass> &passes,
                const std::vector<StepLengths> &lengths, State &state) {
    Pass all;
    for (const Pass &pass : passes)
      all = all.then(pass);
    double length = 0;
    all.squared = 0;
    for (const StepLengths &part : lengths) {
      length += part.length;
      all.squared += part.squared;
    }
    const ProximalBias &bias = state.bias;
    const double h = length + all.curved + bias.response() * all.balance * all.balance;
    const double rise = all.separable - 0.5 * all.squared - bias.value() * all.balance -
                        0.5 * bias.response() * all.balance * all.balance;
    // The steps of the first epoch are for a dual with other costs: they are taken as they are.
    if (h > 0 && !state.first) {
      const double eta = (rise + 0.5 * h) / h;
      if (eta < 1)
        shorten(rows, all, std::max(eta, 0.0), length, state.w);
      adapt(eta);
    }
    state.w.swap(local_[0]);
    state.take(all);
    return all;
  }

  // Where the line search wanted to go less far than all the way, rows of different blocks stand in
  // each other's way: each is made to step as if its own step counted more.
  void adapt(double eta) {
    const W factor = eta < 0.9 ? W(1.2) : eta > 1.2 ? W(1) / W(1.05) : W(1);
    caution_.times = std::clamp(caution_.times * factor, W(1), static_cast<W>(n_blocks_));
  }

  // Goes only eta of the way.
  void shorten(Active &rows, Pass &pass, double eta, double length, const LargeVector<W> &w) {
    for (const auto &steps : undo_)
      for (const auto &[index, before] : steps) {
        ActiveRow<W> &row = rows.active[index];
        row.alpha = before + static_cast<W>(eta) * (row.alpha - before);
      }
    for (size_t j = 0; j < w.size(); ++j)
      local_[0][j] = w[j] + static_cast<W>(eta) * (local_[0][j] - w[j]);
    pass.squared = eta * (pass.squared - length) + eta * eta * length;
    pass.separable = eta * pass.separable + 0.5 * (eta - eta * eta) * pass.curved;
    pass.balance *= eta;
  }

  int64_t n_blocks_;
  int n_threads_;
  Caution<W> caution_;
  std::vector<LargeVector<W>> local_;   // the blocks' weights
  std::vector<std::vector<Undo>> undo_; // the blocks' steps
};

} // namespace bridle
