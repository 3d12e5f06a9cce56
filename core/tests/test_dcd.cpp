#include "check.hpp"

#include "linear/dcd/descent.hpp"
#include "linear/dcd/part.hpp"
#include "linear/dcd/streamed.hpp"
#include "losses.hpp"
#include "rows/passes.hpp"

#include <limits>
#include <utility>

using namespace bridle;

// A loss that the library does not ship: max(0, 2 - p).
struct WideHinge : QuadraticDual<WideHinge> {
  static constexpr std::string_view name = "wide_hinge";
  static constexpr double target = 2;
  static constexpr bool bounded_slope = true;
  template <class W> W upper(W cost) const { return cost; }
  template <class W> W curvature(W) const { return 0; }
  template <class W> W slope(W p) const { return p < W(2) ? W(1) : W(0); }
  template <class W> W value(W p) const { return std::max(W(0), W(2) - p); }
  template <class W> W gap(W p, W alpha, W cost) const {
    return cost * value(p) - alpha * (W(2) - p);
  }
};

constexpr double no_bias = std::numeric_limits<double>::infinity();

template <RowsLike Rows, LossLike Loss> StepsOf<Rows> by(const Loss &loss) {
  return std::make_unique<StepsBy<Rows, Loss>>(loss);
}

struct Values {
  double primal, dual;
};

// P(w) and D(alpha) without a bias, w = w(alpha) made anew.
template <LossLike Loss, RowsLike Rows>
Values certificate(const Rows &rows, const Loss &loss, const std::vector<double> &signed_cost,
                   const std::vector<double> &alpha, const double *targets = nullptr) {
  std::vector<double> z(alpha), w(rows.n_features + 1), score(rows.n_rows);
  for (size_t i = 0; i < z.size(); ++i)
    z[i] = alpha[i] * std::copysign(1.0, signed_cost[i]); // which may be negative in regression
  combine(rows, z.data(), w.data(), 1);
  scores(rows, w.data(), score.data(), 1);
  Values value{0, 0};
  for (const double x : w)
    value.primal += 0.5 * x * x;
  value.dual = -value.primal;
  for (size_t i = 0; i < z.size(); ++i) {
    const double cost = std::abs(signed_cost[i]);
    const double t = targets ? targets[i] : 0.0;
    CHECK(alpha[i] >= loss.lower(cost) * (1 + 1e-6) && alpha[i] <= loss.upper(cost) * (1 + 1e-6));
    value.primal += cost * loss.value(std::copysign(1.0, signed_cost[i]) * score[i] - t);
    value.dual += separable_dual(loss, alpha[i], cost, t);
  }
  return value;
}

template <LossLike Loss, RowsLike Rows>
std::vector<double> descend(const Rows &rows, const Sample &sample, int64_t n_blocks, int n_threads,
                            const Loss &loss = {}, const double *targets = nullptr) {
  std::vector<double> signed_cost(sample.y), alpha(sample.n_rows, 0.0);
  if (targets)
    signed_cost.assign(sample.n_rows, 1.0);
  DcdOn<Rows> descent(rows, by<Rows>(loss),
                      {signed_cost.data(), sample.squared_norms.data(), targets}, alpha.data(),
                      {0.0, no_bias, n_blocks, n_threads});
  Rng rng(3);
  double before = 0;
  for (int epoch = 0; epoch < 200; ++epoch) {
    const DcdEpoch done = descent.visit(rng, 8, 1.0);
    CHECK(done.finished && done.visits > 0);
    if (epoch > 0)
      CHECK(done.dual >= before - 1e-4 * std::abs(before));
    before = done.dual;
    if (epoch % 20 == 0)
      descent.unshrink();
  }
  descent.alpha(alpha.data());
  const auto [primal, dual] = certificate(rows, loss, signed_cost, alpha, targets);
  CHECK(close(dual, before, 1e-4));
  CHECK(dual <= primal + 1e-6 * primal && primal - dual <= 1e-2 * primal);
  return alpha;
}

// Two parts, each knowing what the other has done only after its visit.
void parts_find_the_same_optimum(const Sample &sample) {
  const auto rows = sample.csr();
  using Rows = std::decay_t<decltype(rows)>;
  const int64_t half = sample.n_rows / 2, n = sample.n_features;
  std::vector<double> alpha(sample.n_rows, 0.0), w(n + 1, 0.0), caution(n + 1, 2.0);
  Rows first = rows, second = rows;
  first.n_rows = half;
  second.offsets += half;
  second.n_rows = sample.n_rows - half;
  const double *y = sample.y.data(), *norms = sample.squared_norms.data();
  DcdPartOn<Rows> a(first, by<Rows>(Hinge{}), {y, norms}, alpha.data());
  DcdPartOn<Rows> b(second, by<Rows>(Hinge{}), {y + half, norms + half}, alpha.data() + half);
  a.set_caution(caution.data());
  b.set_caution(caution.data());
  Rng rng(4);
  for (int round = 0; round < 400; ++round) {
    const double kept = round % 5 == 1 ? 0.5 : 1.0;
    std::vector<double> step(n + 1, 0.0);
    for (DcdPart *part : {static_cast<DcdPart *>(&a), static_cast<DcdPart *>(&b)}) {
      part->visit(rng, 8, 0.5, {w.data(), 0, 0, 0}, {}, step.data());
      CHECK(part->moved().curvature == 0);
      part->keep(kept); // also right after all rows were woken up, when some rest again
      if (round % 50 == 0)
        part->unshrink();
    }
    for (int64_t j = 0; j <= n; ++j)
      w[j] += kept * step[j];
  }
  a.alpha(alpha.data());
  b.alpha(alpha.data() + half);
  const auto [primal, dual] = certificate(rows, Hinge{}, sample.y, alpha);
  CHECK(primal - dual <= 1e-2 * primal);
}

void rows_that_pass_by_are_enough(const Sample &sample) {
  const auto rows = sample.csr();
  using Rows = std::decay_t<decltype(rows)>;
  std::vector<double> alpha(sample.n_rows, 0.0), w(sample.n_features + 1, 0.0);
  std::vector<uint8_t> resting(sample.n_rows, 0);
  double mean = 0;
  for (const double q : sample.squared_norms)
    mean += q / static_cast<double>(sample.n_rows);
  StreamedDcdOn<Rows> descent(rows, by<Rows>(SquaredHinge{}),
                              {w.data(), 0, 0, 0, mean, 1.0, sample.n_rows, true}, no_bias, 1, 1);
  Rng rng(5);
  for (int epoch = 0; epoch < 100; ++epoch) {
    descent.visit(rows, {sample.y.data(), sample.squared_norms.data()}, alpha.data(),
                  resting.data(), rng, 8);
    descent.end_epoch();
    if (epoch % 10 == 0)
      std::fill(resting.begin(), resting.end(), uint8_t{0});
  }
  const auto [primal, dual] = certificate(rows, SquaredHinge{}, sample.y, alpha);
  CHECK(primal - dual <= 1e-2 * primal);
}

// Rows enough for rounds, in which many threads visit: what they find is the same for any number of
// threads, rises from epoch to epoch, and is what its alpha says.
template <LossLike Loss, RowsLike Rows>
void rounds_do_not_mind_threads(const Rows &rows, const Sample &sample) {
  std::vector<double> once;
  double one_at_a_time = 0;
  for (const auto &[n_blocks, n_threads] : {std::pair{1, 1}, {2, 1}, {2, 2}, {2, 3}, {2, 16}}) {
    std::vector<double> alpha(sample.n_rows, 0.0);
    DcdOn<Rows> descent(rows, by<Rows>(Loss{}), {sample.y.data(), sample.squared_norms.data()},
                        alpha.data(), {0.0, no_bias, n_blocks, n_threads, true});
    Rng rng(3);
    double before = 0;
    for (int epoch = 0; epoch < 6; ++epoch) {
      const DcdEpoch done = descent.visit(rng, 32, 1.0);
      if (epoch > 0)
        CHECK(done.dual >= before - 1e-4 * std::abs(before));
      before = done.dual;
    }
    descent.alpha(alpha.data());
    CHECK(close(certificate(rows, Loss{}, sample.y, alpha).dual, before, 1e-4));
    if (n_blocks == 1) {
      one_at_a_time = before;
      continue;
    }
    CHECK(before != one_at_a_time && before >= 0.95 * one_at_a_time);
    if (once.empty())
      once = alpha;
    CHECK(alpha == once);
  }
}

int main() {
  const Sample sample(400, 30, 6);
  const auto once = descend<Hinge>(sample.csr(), sample, 1, 1);
  CHECK(descend<Hinge>(sample.csr(), sample, 1, 4) == once);
  descend<Hinge>(sample.full(), sample, 1, 1);
  descend<SquaredHinge>(sample.csr(), sample, 1, 1);
  descend<WideHinge>(sample.full(), sample, 1, 1);
  descend<Logistic>(sample.csr(), sample, 1, 1);
  // Regression: epsilon-insensitive, a quantile, least squares; the labels serve as targets.
  for (const PiecewiseQuadratic loss :
       {PiecewiseQuadratic{0, -1, 1, 0.1, 0}, PiecewiseQuadratic{0, -0.3, 0.7, 0, 0},
        PiecewiseQuadratic{0, -INFINITY, INFINITY, 0, 0.5}})
    descend(sample.csr(), sample, 1, 1, loss, sample.y.data());
  parts_find_the_same_optimum(sample);
  rows_that_pass_by_are_enough(sample);
  // Large enough for blocks to exchange many times an epoch: the same for any threads.
  const Sample large(30000, 40, 7);
  CHECK(descend<Hinge>(large.csr(), large, 2, 1) == descend<Hinge>(large.csr(), large, 2, 2));
  const Sample wide(17000, 250, 8);
  rounds_do_not_mind_threads<Hinge>(wide.csr(), wide);
  rounds_do_not_mind_threads<SquaredHinge>(wide.full(), wide);
}
