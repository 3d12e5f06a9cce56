// Chains of labels over sequences of feature rows. With rows x_1..x_T and labels y_1..y_T
//
//   w.Psi(x, y) = sum_t emission[y_t].x_t + sum_{t > 1} transition[y_{t-1}][y_t],
//
// and the loss of y' against the truth y is sum_t cost[y_t][y'_t]. A weight vector is laid out as
// emissions, feature by feature (n_features x K; the constant feature is the last one), followed by
// the K x K transitions, previous label first. Sequences of length one without transitions are the
// multiclass machine of Crammer & Singer.
#pragma once

#include "base/cpu.hpp"
#include "base/parallel.hpp"
#include "rows/views.hpp"
#include "structured/viterbi.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

struct ChainShape {
  const int64_t *offsets; // n_sequences + 1, into the rows
  int64_t n_sequences;
  const int32_t *labels; // one a row
  const double *cost;    // K x K
  int64_t K;
  bool transitions;

  int64_t begin(int64_t i) const { return offsets[i]; }
  int64_t length(int64_t i) const { return offsets[i + 1] - offsets[i]; }
  double cost_of(int64_t row, int64_t label) const { return cost[labels[row] * K + label]; }
};

template <RowsLike Rows> int64_t n_emission_rows(const Rows &rows) {
  return rows.n_features + (rows.bias != 0 ? 1 : 0);
}

template <RowsLike Rows> int64_t n_chain_weights(const Rows &rows, const ChainShape &shape) {
  return n_emission_rows(rows) * shape.K + (shape.transitions ? shape.K * shape.K : 0);
}

// Calls visit(feature, value) for every feature of a row, the constant one included.
template <RowsLike Rows, class Visit>
void for_features(const Rows &rows, int64_t row, Visit &&visit) {
  rows.for_each(row, visit);
  if (rows.bias != 0)
    visit(rows.n_features, static_cast<double>(rows.bias)); // not rounded as the data may be
}

// out[k] = emission[k].x_row for k < stride.
template <class Real, RowsLike Rows>
BRIDLE_WIDEST void emission_scores(const Rows &rows, int64_t row, const Real *w, int64_t stride,
                                   Real *__restrict out) {
  std::fill_n(out, stride, Real(0));
  // Inlined: elsewhere it would be compiled for any machine.
  const auto add = [&](int64_t feature, auto value) __attribute__((always_inline)) {
    const Real v = static_cast<Real>(value);
    const Real *__restrict wf = w + feature * stride;
#pragma omp simd
    for (int64_t k = 0; k < stride; ++k)
      out[k] += v * wf[k];
  };
  rows.for_each(row, add);
  if (rows.bias != 0)
    add(rows.n_features, static_cast<double>(rows.bias)); // not rounded as the data may be
}

template <class Real> struct ChainScratch {
  std::vector<Real> scores;
  std::vector<int32_t> path;
  Viterbi<Real> viterbi;
};

template <class Real>
double path_score(const Real *scores, const Real *transitions, int64_t stride, const int32_t *path,
                  int64_t length) {
  double sum = 0;
  for (int64_t t = 0; t < length; ++t) {
    sum += scores[t * stride + path[t]];
    if (t > 0 && transitions)
      sum += transitions[path[t - 1] * stride + path[t]];
  }
  return sum;
}

// The best path of one sequence.
struct ChainAnswer {
  double value; // with loss, if augmented
  double truth; // the score of the true labels, if augmented
};

template <RowsLike Rows>
ChainAnswer chain_answer(const Rows &rows, const ChainShape &shape, int64_t i, const double *w,
                         bool augmented, ChainScratch<double> &scratch, int32_t *path) {
  const int64_t K = shape.K, first = shape.begin(i), length = shape.length(i);
  const double *transitions = shape.transitions ? w + n_emission_rows(rows) * K : nullptr;
  scratch.scores.resize(static_cast<size_t>(length * K));
  double *scores = scratch.scores.data();
  for (int64_t t = 0; t < length; ++t)
    emission_scores(rows, first + t, w, K, scores + t * K);
  ChainAnswer answer{0, 0};
  if (augmented) {
    answer.truth = path_score(scores, transitions, K, shape.labels + first, length);
    for (int64_t t = 0; t < length; ++t)
      for (int64_t k = 0; k < K; ++k)
        scores[t * K + k] += shape.cost_of(first + t, k);
  }
  answer.value = scratch.viterbi.best_path(scores, transitions, length, K, K, path);
  return answer;
}

// The answer of the oracle for every sequence: the best path for w, with the loss added where
// `augmented`. values[i] is its score with loss; truths[i] the score of the true labels (0 unless
// augmented). All in float64.
template <RowsLike Rows>
void chain_argmax(const Rows &rows, const ChainShape &shape, const double *w, bool augmented,
                  int32_t *paths, double *values, double *truths, int n_threads) {
  const int64_t n_blocks = std::clamp<int64_t>(shape.n_sequences / 16, 1, 256);
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    ChainScratch<double> scratch;
    const auto [begin, end] = block_range(shape.n_sequences, n_blocks, block);
    for (int64_t i = begin; i < end; ++i) {
      const ChainAnswer answer =
          chain_answer(rows, shape, i, w, augmented, scratch, paths + shape.begin(i));
      values[i] = answer.value;
      truths[i] = answer.truth;
    }
  });
}

// Calls visit(index, value) for the entries of Psi(x_i, labels_i) - Psi(x_i, path); an index may
// come more than once. Positions where the two agree are never looked at.
template <RowsLike Rows, class Visit>
void for_difference(const Rows &rows, const ChainShape &shape, int64_t i, const int32_t *path,
                    Visit &&visit) {
  const int64_t K = shape.K, first = shape.begin(i), length = shape.length(i);
  const int64_t transitions = n_emission_rows(rows) * K;
  const int32_t *truth = shape.labels + first;
  for (int64_t t = 0; t < length; ++t) {
    const int64_t y = truth[t], other = path[t];
    if (y != other)
      for_features(rows, first + t, [&](int64_t feature, auto value) {
        visit(feature * K + y, static_cast<double>(value));
        visit(feature * K + other, -static_cast<double>(value));
      });
    if (shape.transitions && t > 0 && (y != other || truth[t - 1] != path[t - 1])) {
      visit(transitions + truth[t - 1] * K + y, 1.0);
      visit(transitions + path[t - 1] * K + other, -1.0);
    }
  }
}

inline double path_loss(const ChainShape &shape, int64_t i, const int32_t *path) {
  double sum = 0;
  for (int64_t t = 0; t < shape.length(i); ++t)
    sum += shape.cost_of(shape.begin(i) + t, path[t]);
  return sum;
}

} // namespace bridle
