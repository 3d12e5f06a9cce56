// Sums whose rounding is known, for certificates.
#include "bindings.hpp"

#include "base/sums.hpp"
#include "loss_sums.hpp"

#include <nanobind/stl/pair.h>

namespace bridle {
namespace {

using Pair = std::pair<double, double>;

Pair pair_of(const KnownSum &found) { return {found.sum, found.size}; }

Pair inner(Vector<double> a, Vector<double> b, int n_threads) {
  const auto n = static_cast<int64_t>(a.shape(0));
  expect_size(b, n, "b");
  const nb::gil_scoped_release release;
  return pair_of(known_inner(a.data(), b.data(), n, n_threads));
}

Pair total(Vector<double> a, int n_threads) {
  const nb::gil_scoped_release release;
  return pair_of(known_sum(a.data(), static_cast<int64_t>(a.shape(0)), n_threads));
}

Pair squares_over(Vector<double> alpha, const PyPerRow &cost, int n_threads) {
  const auto n = static_cast<int64_t>(alpha.shape(0));
  const PerRow costs = per_row(cost, n, "cost");
  const nb::gil_scoped_release release;
  return pair_of(known_blocks(n, n_threads, [&](int64_t begin, int64_t size) {
    const double *a = alpha.data() + begin;
    double ratio[sum_block];
    for (int64_t k = 0; k < size; ++k)
      ratio[k] = costs[begin + k] > 0 ? a[k] / costs[begin + k] : 0.0;
    return inner_block(a, ratio, size);
  }));
}

std::pair<Pair, double> of_dual(Vector<double> alpha, Vector<double> signs, int n_threads) {
  const auto n = static_cast<int64_t>(alpha.shape(0));
  expect_size(signs, n, "signs");
  const nb::gil_scoped_release release;
  const DualSums found = dual_sums(alpha.data(), signs.data(), n, n_threads);
  return {pair_of(found.total), found.balance};
}

std::pair<Pair, Pair> losses(const PyLoss &loss, Vector<double> signed_cost, Vector<double> scores,
                             double error, int n_threads) {
  const auto n = static_cast<int64_t>(signed_cost.shape(0));
  expect_size(scores, n, "scores");
  const nb::gil_scoped_release release;
  const LossSums found = std::visit(
      [&](const auto &l) {
        return loss_sums(l, signed_cost.data(), scores.data(), error, n, n_threads);
      },
      loss_from(loss));
  return {pair_of(found.least), pair_of(found.most)};
}

} // namespace

void bind_sums(nb::module_ &m) {
  m.attr("roundings") = 26;
  m.def("inner", &inner, nb::arg("a"), nb::arg("b"), nb::arg("n_threads") = 1,
        "sum_i a_i b_i and sum_i |a_i b_i|, each term rounded at most `roundings` times.");
  m.def("total", &total, nb::arg("a"), nb::arg("n_threads") = 1,
        "sum_i a_i and sum_i |a_i|, likewise.");
  m.def("squares_over", &squares_over, nb::arg("alpha"), nb::arg("cost"), nb::arg("n_threads"),
        "sum_i alpha_i^2 / C_i, of rounded ratios, over positive costs, twice.");
  m.def("of_dual", &of_dual, nb::arg("alpha"), nb::arg("signs"), nb::arg("n_threads"),
        "sum_i alpha_i and sum_i |alpha_i|; and sum_i alpha_i y_i, of numbers with the signs y_i.");
  m.def("losses", &losses, nb::arg("loss"), nb::arg("signed_cost"), nb::arg("scores"),
        nb::arg("error"), nb::arg("n_threads"),
        "sum_i C_i loss(p_i), p_i = y_i s_i plus the error, and the sum of the absolute values; "
        "and the same of p_i less the error.");
}

} // namespace bridle
