// Sums whose rounding is known, for certificates.
#include "bindings.hpp"

#include "base/sums.hpp"
#include "loss_sums.hpp"

#include <nanobind/stl/pair.h>

namespace bridle {
namespace {

std::pair<double, double> inner(Vector<double> a, Vector<double> b) {
  const auto n = static_cast<int64_t>(a.shape(0));
  expect_size(b, n, "b");
  const nb::gil_scoped_release release;
  const KnownSum found = known_inner(a.data(), b.data(), n);
  return {found.sum, found.size};
}

std::pair<double, double> total(Vector<double> a) {
  const nb::gil_scoped_release release;
  const KnownSum found = known_sum(a.data(), static_cast<int64_t>(a.shape(0)));
  return {found.sum, found.size};
}

std::pair<std::pair<double, double>, std::pair<double, double>>
losses(const PyLoss &loss, Vector<double> y, Vector<double> scores, double error,
       Vector<double> cost, int n_threads) {
  const auto n = static_cast<int64_t>(y.shape(0));
  expect_size(scores, n, "scores");
  expect_size(cost, n, "cost");
  const nb::gil_scoped_release release;
  const LossSums found = std::visit(
      [&](const auto &l) {
        return loss_sums(l, y.data(), scores.data(), error, cost.data(), n, n_threads);
      },
      loss_from(loss));
  return {{found.least.sum, found.least.size}, {found.most.sum, found.most.size}};
}

} // namespace

void bind_sums(nb::module_ &m) {
  m.attr("roundings") = 26; // two more where parts are added up, as the losses are
  m.def("inner", &inner, nb::arg("a"), nb::arg("b"),
        "sum_i a_i b_i and sum_i |a_i b_i|, each term rounded at most `roundings` times.");
  m.def(
      "losses", &losses, nb::arg("loss"), nb::arg("y"), nb::arg("scores"), nb::arg("error"),
      nb::arg("cost"), nb::arg("n_threads"),
      "sum_i C_i loss(p_i), p_i = y_i s_i plus the error, and the sum of the absolute values; and "
      "the same of p_i less the error.");
  m.def("total", &total, nb::arg("a"), "sum_i a_i and sum_i |a_i|, likewise.");
}

} // namespace bridle
