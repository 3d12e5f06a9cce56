// Block-coordinate Frank-Wolfe on chains (Lacoste-Julien, Jaggi, Schmidt & Pletscher, ICML 2013)
// with pairwise steps that need no list of past answers (Garber & Meshi, NIPS 2016).
//
// The dual point of a sequence is a distribution over its label paths, and only its marginals
// matter: the mass of every edge (previous label, label) at every position, of which few are not 0.
// Masses that sum to one at each position and balance at each label are the marginals of some
// convex combination of paths, so they prove what a list of paths would prove, in far less memory.
//
// A visit of sequence i asks the oracle for the best path s, and finds the worst path a, of
// smallest loss-augmented score, among those that have mass. Where the two differ, run by run, mass
// moves from the edges of a to those of s: with Delta = Psi(a) - Psi(s) on the run and F its gain
// in score,
//
//   w += C_i gamma Delta,   gamma = min(mass of a on the run, F / (C_i |Delta|^2)),
//
// an exact line search that costs only the positions of the run. Runs of one sequence are separate
// decisions: a single step size for the whole path would be that of the most cautious of them.
#pragma once

#include "rows/product.hpp"
#include "structured/chain.hpp"

#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace bridle {

struct ChainEdge {
  int32_t from, to; // labels; from is -1 at the first position
  double mass;
};

// How far W (in length) and the loss of a dual point may be from those of an exact one.
struct MeanErrors {
  double features = 0, loss = 0;
};

class ChainFrankWolfe {
public:
  virtual ~ChainFrankWolfe() = default;
  // Visits sequences in this order, taking up to 1 + further_steps rounds of steps on each.
  virtual void visit(std::span<const int64_t> order, int64_t further_steps) = 0;
  // The gap of each sequence at its last visit; infinite before the first.
  virtual std::span<const double> gaps() const = 0;
  virtual double dual() const = 0;
  // w in float64, rebuilt from the masses; returns the dual point's loss, sum_i C_i mean loss_i.
  virtual double weights(double *out) = 0;
  // Of what weights() said last.
  virtual MeanErrors errors() const = 0;
  // The mean of w over the visits of the last call of visit().
  virtual void average(double *out) const = 0;
  virtual int64_t n_weights() const = 0;
  virtual int64_t n_tokens() const = 0;
  virtual std::span<const ChainEdge> edges(int64_t token) const = 0;
};

template <RowsLike Rows> class ChainFrankWolfeOn final : public ChainFrankWolfe {
public:
  using Real = typename Rows::Value; // float32 where the data is

  ChainFrankWolfeOn(const Rows &rows, const ChainShape &shape, const double *C)
      : rows_(rows), shape_(shape), C_(C), stride_((shape.K + 7) / 8 * 8),
        w_(static_cast<size_t>(n_emission_rows(rows) * stride_)),
        transitions_(static_cast<size_t>(shape.transitions ? shape.K * stride_ : 0)),
        edges_(static_cast<size_t>(rows.n_rows)),
        gaps_(static_cast<size_t>(shape.n_sequences), INFINITY) {
    for (int64_t i = 0; i < shape.n_sequences; ++i)
      for (int64_t t = 0; t < shape.length(i); ++t) {
        const int32_t *y = shape.labels + shape.begin(i) + t;
        edges_[shape.begin(i) + t].push_back({t == 0 ? -1 : y[-1], y[0], 1.0});
      }
  }

  void visit(std::span<const int64_t> order, int64_t further_steps) override {
    restart_average();
    for (const int64_t i : order) {
      ++now_;
      gaps_[i] = visit_one(i, 1 + further_steps);
    }
  }

  std::span<const double> gaps() const override { return gaps_; }
  double dual() const override { return dual_; }

  double weights(double *out) override {
    const int64_t K = shape_.K, n_emission = n_emission_rows(rows_);
    std::fill_n(out, n_weights(), 0.0);
    double *transitions = out + n_emission * K;
    double loss = 0;
    tally_ = {};
    for (int64_t i = 0; i < shape_.n_sequences; ++i) {
      double off = 0; // see `imbalance`
      for (int64_t t = 0; t < shape_.length(i); ++t) {
        const int64_t token = shape_.begin(i) + t;
        const double own = imbalance(token, t > 0 && shape_.transitions);
        off = shape_.transitions ? off + own : own;
        loss += C_[i] * add_token(token, C_[i], t > 0, out, transitions);
        tally_.off += C_[i] * off * (1.5 * norm(token) + 1.5);
        tally_.off_loss += C_[i] * off * highest_cost(token);
      }
    }
    const double n = static_cast<double>(tally_.terms + 16) * 0x1p-53;
    const double part = 1.01 * n / (1.0 - n);
    errors_ = {1.01 * (tally_.off + part * tally_.size), 1.01 * (tally_.off_loss + part * loss)};
    double squared_norm = 0;
    for (int64_t k = 0; k < n_weights(); ++k)
      squared_norm += out[k] * out[k];
    copy_rows(out, n_emission, w_.data());
    if (shape_.transitions)
      copy_rows(transitions, K, transitions_.data());
    dual_ = loss - 0.5 * squared_norm; // what rounding has added is gone
    return loss;
  }

  MeanErrors errors() const override { return errors_; }

  void average(double *out) const override {
    const int64_t K = shape_.K, n_emission = n_emission_rows(rows_);
    if (late_.empty()) // before the first visit
      return std::fill_n(out, n_weights(), 0.0), void();
    const double scale = now_ > 0 ? 1.0 / static_cast<double>(now_) : 0.0;
    for (int64_t f = 0; f < n_emission; ++f)
      for (int64_t k = 0; k < K; ++k)
        out[f * K + k] = w_[f * stride_ + k] - scale * late_[f * stride_ + k];
    if (shape_.transitions)
      for (int64_t j = 0; j < K; ++j)
        for (int64_t k = 0; k < K; ++k)
          out[(n_emission + j) * K + k] =
              transitions_[j * stride_ + k] - scale * late_transitions_[j * stride_ + k];
  }

  int64_t n_weights() const override { return n_chain_weights(rows_, shape_); }
  int64_t n_tokens() const override { return rows_.n_rows; }
  std::span<const ChainEdge> edges(int64_t token) const override { return edges_[token]; }

private:
  void copy_rows(const double *from, int64_t n, Real *to) const {
    for (int64_t f = 0; f < n; ++f)
      for (int64_t k = 0; k < shape_.K; ++k)
        to[f * stride_ + k] = static_cast<Real>(from[f * shape_.K + k]);
  }

  // Adds C (Psi(truth) - mean Psi) of one position to w; returns its mean loss.
  double add_token(int64_t token, double C, bool has_edge, double *w, double *transitions) {
    const int64_t K = shape_.K, y = shape_.labels[token];
    const bool edges_count = shape_.transitions && has_edge;
    double loss = 0;
    for (const ChainEdge &edge : edges_[token]) {
      const double mass = C * edge.mass;
      loss += edge.mass * shape_.cost_of(token, edge.to);
      if (edge.to != y) {
        for_features(rows_, token, [&](int64_t feature, auto value) {
          const double v = mass * static_cast<double>(value);
          w[feature * K + y] += v;
          w[feature * K + edge.to] -= v;
        });
        tally_.size += 1.5 * mass * norm(token); // 1.5 > sqrt(2): two entries
      } else if (!edges_count || edge.from == shape_.labels[token - 1]) {
        continue; // the truth's own
      }
      tally_.terms += 2;
      if (edges_count) {
        transitions[shape_.labels[token - 1] * K + y] += mass;
        transitions[edge.from * K + edge.to] -= mass;
        tally_.size += 1.5 * mass;
      }
    }
    return loss;
  }

  // How far the masses of a position are from those of any flow, at most, if those of the position
  // before were one. Let the flow be what comes in at each label, divided as the masses that go out
  // of it are: it differs from the masses by what comes in and does not go out, or the other way
  // round, and by as much as it did before. So the sum over the positions so far bounds sum |mass
  // - flow| of a position. Sums are rounded themselves: where nothing was added, they are exact.
  double imbalance(int64_t token, bool has_edge) {
    const auto &edges = edges_[token];
    double sum = 0;
    size_t n = edges.size();
    if (!has_edge) { // the labels of this position alone, or the first ones
      for (const ChainEdge &edge : edges)
        sum += edge.mass;
      return std::abs(1.0 - sum) + rounding_of(n);
    }
    const auto &before = edges_[token - 1];
    n += before.size();
    balance_.assign(static_cast<size_t>(shape_.K), 0.0);
    for (const ChainEdge &edge : before)
      balance_[edge.to] += edge.mass;
    for (const ChainEdge &edge : edges)
      balance_[edge.from] -= edge.mass;
    for (const double off : balance_)
      sum += std::abs(off);
    return sum + rounding_of(n - 1);
  }
  // Of adding up n masses, none much larger than 1.
  static double rounding_of(size_t n) {
    return n > 1 ? 4 * static_cast<double>(n * n) * 0x1p-53 : 0;
  }

  double norm(int64_t token) {
    if (norms_.empty())
      for (int64_t row = 0; row < rows_.n_rows; ++row)
        norms_.push_back(1.0001 * std::sqrt(row_product(rows_, row, row)) + 1e-150);
    return norms_[token];
  }
  double highest_cost(int64_t token) const {
    const double *costs = shape_.cost + shape_.labels[token] * shape_.K;
    return *std::max_element(costs, costs + shape_.K);
  }

  const Real *transitions() const { return shape_.transitions ? transitions_.data() : nullptr; }
  Real transition(int64_t from, int64_t to) const {
    return shape_.transitions && from >= 0 ? transitions_[from * stride_ + to] : Real(0);
  }

  // Loss-augmented scores of every position and label.
  void fill_scores(int64_t i) {
    const int64_t first = shape_.begin(i), length = shape_.length(i);
    scratch_.scores.resize(static_cast<size_t>(length * stride_));
    for (int64_t t = 0; t < length; ++t) {
      Real *here = scratch_.scores.data() + t * stride_;
      emission_scores(rows_, first + t, w_.data(), stride_, here);
      for (int64_t k = 0; k < shape_.K; ++k)
        here[k] += static_cast<Real>(shape_.cost_of(first + t, k));
    }
  }

  // Returns the block's duality gap before the first step.
  double visit_one(int64_t i, int64_t n_steps) {
    const int64_t length = shape_.length(i);
    if (length == 0 || C_[i] == 0)
      return 0;
    scratch_.path.resize(static_cast<size_t>(length));
    worst_.resize(static_cast<size_t>(length));
    double first_gap = 0;
    for (int64_t step = 0; step < n_steps; ++step) {
      fill_scores(i);
      const double top = scratch_.viterbi.best_path(scratch_.scores.data(), transitions(), length,
                                                    shape_.K, stride_, scratch_.path.data());
      const double gap = C_[i] * (top - mean_and_worst(i));
      // The worst path would be none that has mass.
      if (!std::isfinite(gap))
        throw std::invalid_argument("the scores of sequence " + std::to_string(i) +
                                    " overflow: scale the features, or lower C");
      if (step == 0)
        first_gap = std::max(gap, 0.0);
      if (gap <= 1e-6 * C_[i] * std::max(1.0, std::abs(top)) || gap < 0.1 * first_gap)
        break;
      pairwise_steps(i);
    }
    return first_gap;
  }

  // The mean score of the block's distribution; the path of smallest score that has mass goes into
  // worst_.
  double mean_and_worst(int64_t i) {
    const int64_t first = shape_.begin(i), length = shape_.length(i), K = shape_.K;
    lowest_.assign(static_cast<size_t>(length * K), INFINITY);
    from_.resize(static_cast<size_t>(length * K));
    double mean = 0;
    for (int64_t t = 0; t < length; ++t)
      for (const ChainEdge &edge : edges_[first + t]) {
        const double here = scratch_.scores[t * stride_ + edge.to] + transition(edge.from, edge.to);
        mean += edge.mass * here;
        const double sum = here + (t > 0 ? lowest_[(t - 1) * K + edge.from] : 0.0);
        if (sum < lowest_[t * K + edge.to]) {
          lowest_[t * K + edge.to] = sum;
          from_[t * K + edge.to] = edge.from;
        }
      }
    int32_t at = edges_[first + length - 1].front().to;
    for (const ChainEdge &edge : edges_[first + length - 1])
      if (lowest_[(length - 1) * K + edge.to] < lowest_[(length - 1) * K + at])
        at = edge.to;
    for (int64_t t = length - 1; t >= 0; --t) {
      worst_[t] = at;
      at = from_[t * K + at];
    }
    return mean;
  }

  // One step for each run of positions where the best and the worst path differ.
  void pairwise_steps(int64_t i) {
    const int64_t length = shape_.length(i);
    for (int64_t begin = 0; begin < length;) {
      int64_t end = begin;
      while (end < length && scratch_.path[end] != worst_[end])
        ++end;
      if (end > begin)
        step_on_run(i, begin, end);
      begin = end + 1;
    }
  }

  void step_on_run(int64_t i, int64_t begin, int64_t end) {
    const int64_t first = shape_.begin(i);
    // The edge after the run changes too.
    const int64_t edge_end = std::min(end + 1, shape_.length(i));
    double mass = 1;
    for (int64_t t = begin; t < edge_end; ++t)
      mass = std::min(mass, find_edge(first + t, label_before(worst_, t), worst_[t])->mass);
    const double gain = run_gain(i, begin, end, edge_end);
    if (!(gain > 0))
      return;
    const double curvature = C_[i] * squared_distance(i, begin, end, edge_end);
    const double gamma = curvature * mass > gain ? gain / curvature : mass;
    for (int64_t t = begin; t < edge_end; ++t)
      shift(first + t, t, gamma);
    move(i, begin, end, edge_end, static_cast<Real>(C_[i] * gamma));
    dual_ += C_[i] * gamma * (gain - 0.5 * gamma * curvature);
  }

  static int32_t label_before(const std::vector<int32_t> &path, int64_t t) {
    return t > 0 ? path[t - 1] : -1;
  }

  std::vector<ChainEdge>::iterator find_edge(int64_t token, int32_t from, int32_t to) {
    auto &edges = edges_[token];
    return std::find_if(edges.begin(), edges.end(),
                        [&](const ChainEdge &edge) { return edge.from == from && edge.to == to; });
  }

  // Moves mass at one position from the edge of the worst path to that of the best.
  void shift(int64_t token, int64_t t, double mass) {
    auto &edges = edges_[token];
    const auto source = find_edge(token, label_before(worst_, t), worst_[t]);
    source->mass -= mass;
    if (source->mass < 1e-14)
      edges.erase(source);
    const int32_t from = label_before(scratch_.path, t), to = scratch_.path[t];
    const auto target = find_edge(token, from, to);
    if (target != edges.end())
      target->mass += mass;
    else
      edges.push_back({from, to, mass});
  }

  // F(best) - F(worst) on a run, at the present w: earlier runs may have changed it.
  double run_gain(int64_t i, int64_t begin, int64_t end, int64_t edge_end) const {
    const int64_t first = shape_.begin(i);
    const std::vector<int32_t> &s = scratch_.path, &a = worst_;
    double gain = 0;
    for (int64_t t = begin; t < end; ++t) {
      gain += shape_.cost_of(first + t, s[t]) - shape_.cost_of(first + t, a[t]);
      for_features(rows_, first + t, [&](int64_t feature, auto value) {
        const Real *wf = w_.data() + feature * stride_;
        gain += static_cast<double>(value) * static_cast<double>(wf[s[t]] - wf[a[t]]);
      });
    }
    for (int64_t t = begin; t < edge_end; ++t)
      gain += transition(label_before(s, t), s[t]) - transition(label_before(a, t), a[t]);
    return gain;
  }

  // |Psi(x_i, best) - Psi(x_i, worst)|^2 on a run.
  double squared_distance(int64_t i, int64_t begin, int64_t end, int64_t edge_end) {
    const int64_t first = shape_.begin(i);
    const std::vector<int32_t> &s = scratch_.path, &a = worst_;
    double sum = 0;
    for (int64_t t = begin; t < end; ++t) {
      sum += 2 * row_product(rows_, first + t, first + t);
      for (int64_t u = t + 1; u < end; ++u) {
        const int overlap = (s[t] == s[u]) + (a[t] == a[u]) - (s[t] == a[u]) - (a[t] == s[u]);
        if (overlap != 0)
          sum += 2 * overlap * row_product(rows_, first + t, first + u);
      }
    }
    return shape_.transitions ? sum + transition_distance(begin, edge_end) : sum;
  }

  // The same for the counts of transitions.
  double transition_distance(int64_t begin, int64_t edge_end) {
    counts_.clear();
    for (int64_t t = std::max<int64_t>(begin, 1); t < edge_end; ++t) {
      counts_.emplace_back(scratch_.path[t - 1] * shape_.K + scratch_.path[t], 1);
      counts_.emplace_back(worst_[t - 1] * shape_.K + worst_[t], -1);
    }
    std::sort(counts_.begin(), counts_.end());
    double sum = 0;
    for (size_t k = 0; k < counts_.size();) {
      int64_t count = 0;
      const int64_t which = counts_[k].first;
      for (; k < counts_.size() && counts_[k].first == which; ++k)
        count += counts_[k].second;
      sum += static_cast<double>(count * count);
    }
    return sum;
  }

  void restart_average() {
    now_ = 0;
    late_.assign(w_.size(), Real(0));
    late_transitions_.assign(transitions_.size(), Real(0));
  }

  // w += scale (Psi(x_i, worst) - Psi(x_i, best)) on a run.
  void move(int64_t i, int64_t begin, int64_t end, int64_t edge_end, Real scale) {
    const int64_t first = shape_.begin(i);
    const std::vector<int32_t> &s = scratch_.path, &a = worst_;
    for (int64_t t = begin; t < end; ++t)
      for_features(rows_, first + t, [&](int64_t feature, auto value) {
        const Real v = scale * static_cast<Real>(value), late = v * static_cast<Real>(now_);
        w_[feature * stride_ + a[t]] += v;
        w_[feature * stride_ + s[t]] -= v;
        late_[feature * stride_ + a[t]] += late;
        late_[feature * stride_ + s[t]] -= late;
      });
    const Real late = scale * static_cast<Real>(now_);
    if (shape_.transitions)
      for (int64_t t = std::max<int64_t>(begin, 1); t < edge_end; ++t) {
        transitions_[a[t - 1] * stride_ + a[t]] += scale;
        transitions_[s[t - 1] * stride_ + s[t]] -= scale;
        late_transitions_[a[t - 1] * stride_ + a[t]] += late;
        late_transitions_[s[t - 1] * stride_ + s[t]] -= late;
      }
  }

  Rows rows_;
  ChainShape shape_;
  const double *C_;
  int64_t stride_; // of w_ and transitions_, a multiple of 8 labels
  std::vector<Real> w_, transitions_;
  // Each change of w_ times the number of visits before it: what the average lacks.
  std::vector<Real> late_, late_transitions_;
  int64_t now_ = 0;
  std::vector<std::vector<ChainEdge>> edges_; // of each token
  std::vector<double> gaps_;
  double dual_ = 0;
  ChainScratch<Real> scratch_; // its path is the best one
  std::vector<int32_t> worst_, from_;
  std::vector<double> lowest_;
  std::vector<std::pair<int64_t, int>> counts_;
  // What bounds the rounding of weights().
  struct Tally {
    double size = 0, off = 0, off_loss = 0; // of terms; of masses that are no flow
    int64_t terms = 0;                      // that one weight may be the sum of
  } tally_;
  MeanErrors errors_;
  std::vector<double> norms_, balance_;
};

} // namespace bridle
