// Sums whose rounding is known, for certificates.
#include "bindings.hpp"

#include "base/sums.hpp"

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

} // namespace

void bind_sums(nb::module_ &m) {
  m.attr("roundings") = 24;
  m.def("inner", &inner, nb::arg("a"), nb::arg("b"),
        "sum_i a_i b_i and sum_i |a_i b_i|, each term rounded at most `roundings` times.");
  m.def("total", &total, nb::arg("a"), "sum_i a_i and sum_i |a_i|, likewise.");
}

} // namespace bridle
