#include "bindings.hpp"

#include "linear/newton.hpp"

namespace bridle {
namespace {

ClippedSum clipped(Vector<double> p, Vector<double> e, double t, Vector<double> alpha,
                   Vector<double> sigma, Vector<double> upper, Vector<double> y, int n_threads) {
  const auto n = static_cast<int64_t>(p.shape(0));
  expect_size(e, n, "e");
  expect_size(alpha, n, "alpha");
  expect_size(sigma, n, "sigma");
  expect_size(upper, n, "upper");
  expect_size(y, n, "y");
  const PhiRows rows{alpha.data(), sigma.data(), upper.data(), y.data(), n};
  const nb::gil_scoped_release release;
  return clipped_sum(rows, p.data(), e.data(), t, n_threads);
}

std::tuple<double, double> duals(Vector<double> p, Vector<double> alpha, Vector<double> sigma,
                                 Vector<double> upper, MutableVector<double> a,
                                 MutableVector<double> weights, int n_threads) {
  const auto n = static_cast<int64_t>(p.shape(0));
  expect_size(alpha, n, "alpha");
  expect_size(sigma, n, "sigma");
  expect_size(upper, n, "upper");
  expect_size(a, n, "a");
  expect_size(weights, n, "weights");
  const PhiRows rows{alpha.data(), sigma.data(), upper.data(), nullptr, n};
  const nb::gil_scoped_release release;
  const DualsFound found = clipped_duals(rows, p.data(), a.data(), weights.data(), n_threads);
  return {found.slack, found.above};
}

} // namespace

void bind_newton(nb::module_ &m) {
  nb::class_<ClippedSum>(m, "ClippedSum")
      .def_ro("sum", &ClippedSum::sum)
      .def_ro("curvature", &ClippedSum::curvature)
      .def_ro("cross", &ClippedSum::cross)
      .def_ro("weight", &ClippedSum::weight);
  m.def("clipped_duals", &duals, nb::arg("p"), nb::arg("alpha"), nb::arg("sigma"), nb::arg("upper"),
        nb::arg("a"), nb::arg("weights"), nb::arg("n_threads"),
        "a_i = clip(alpha_i + sigma_i (1 - p_i), 0, upper_i), weights_i = sigma_i where that is "
        "between. Returns sum a_i (1 - p_i), and by how much sum upper_i max(1 - p_i, 0) is more.");
  m.def("clipped_sum", &clipped, nb::arg("p"), nb::arg("e"), nb::arg("t"), nb::arg("alpha"),
        nb::arg("sigma"), nb::arg("upper"), nb::arg("y"), nb::arg("n_threads"),
        "sum_i a_i e_i with a_i = clip(alpha_i + sigma_i (1 - p_i - t e_i), 0, upper_i).");
}

} // namespace bridle
