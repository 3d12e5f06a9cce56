#include "check.hpp"

#include "structured/chain.hpp"
#include "structured/chain_bcfw.hpp"
#include "structured/ranking/oracle.hpp"

#include <numeric>
#include <span>

using namespace bridle;

// The best path against all paths.
void viterbi_equals_brute_force() {
  constexpr int64_t K = 3, length = 5, n_paths = 243;
  Rng rng(2);
  std::vector<double> scores(length * K), transitions(K * K);
  for (double &x : scores)
    x = rng.uniform();
  for (double &x : transitions)
    x = rng.uniform();
  std::vector<int32_t> path(length), best(length);
  const double found =
      Viterbi<double>().best_path(scores.data(), transitions.data(), length, K, K, best.data());
  double most = -1;
  for (int64_t number = 0; number < n_paths; ++number) {
    for (int64_t t = 0, rest = number; t < length; ++t, rest /= K)
      path[t] = static_cast<int32_t>(rest % K);
    most = std::max(most, path_score(scores.data(), transitions.data(), K, path.data(), length));
  }
  CHECK(close(found, most));
  CHECK(close(path_score(scores.data(), transitions.data(), K, best.data(), length), most));
}

void frank_wolfe_raises_the_dual() {
  const Sample sample(120, 15, 3);
  const auto rows = sample.full();
  std::vector<int64_t> offsets(25);
  for (size_t k = 0; k < offsets.size(); ++k)
    offsets[k] = 5 * static_cast<int64_t>(k);
  std::vector<int32_t> labels(sample.n_rows);
  std::transform(sample.y.begin(), sample.y.end(), labels.begin(), [](double y) { return y > 0; });
  const std::vector<double> cost{0, 1, 1, 0}, C(24, 0.5);
  const ChainShape shape{offsets.data(), 24, labels.data(), cost.data(), 2, true};
  ChainFrankWolfeOn<DenseRows<double>> steps(rows, shape, C.data());
  std::vector<int64_t> order(24);
  std::iota(order.begin(), order.end(), int64_t{0});
  double before = 0;
  for (int epoch = 0; epoch < 30; ++epoch) {
    steps.visit(order, 2);
    CHECK(steps.dual() >= before);
    before = steps.dual();
  }
  const auto gaps = steps.gaps();
  CHECK(std::accumulate(gaps.begin(), gaps.end(), 0.0) <= 0.05 * before);
}

// An answer is at least as violated as the truth, whose hinge is 0.
void rankings_are_violated() {
  const std::vector<int64_t> offsets{0, 6, 10};
  const std::vector<double> grades{2, 0, 1, 0, 0, 1, 0, 0, 0, 0};
  const std::vector<double> scores{0.1, 0.7, -0.2, 0.3, 0.5, 0.2, 1, 2, 3, 4};
  for (const std::string &name : RankingLosses::names()) {
    const RankingOracle oracle(offsets.data(), 2, grades.data(), name, 3);
    std::vector<double> coefficients(10), losses(2), hinges(2);
    oracle.answers(scores.data(), coefficients.data(), losses.data(), hinges.data(), 1);
    CHECK(hinges[0] > 0 && losses[0] > 0);
    CHECK(hinges[1] == 0 && losses[1] == 0); // nothing to rank
  }
}

int main() {
  viterbi_equals_brute_force();
  frank_wolfe_raises_the_dual();
  rankings_are_violated();
}
