#include "bindings.hpp"

#include "linear/cutting_plane.hpp"

namespace bridle {
namespace {

double margin_cut_rows(const PyRows &rows, Vector<double> w, Vector<double> signed_cost,
                       MutableVector<double> scores, MutableVector<uint8_t> active,
                       MutableVector<double> g, int n_threads) {
  expect_size(w, n_weights(rows), "w");
  expect_size(signed_cost, n_rows(rows), "signed_cost");
  expect_size(scores, n_rows(rows), "scores");
  expect_size(active, n_rows(rows), "active");
  expect_size(g, n_weights(rows), "g");
  const nb::gil_scoped_release release;
  return std::visit(
      [&](const auto &r) {
        return margin_cut(r, w.data(), signed_cost.data(), scores.data(), active.data(), g.data(),
                          n_threads);
      },
      rows.view());
}

void sum_bit_rows(nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> bits,
                  Vector<double> weights, MutableVector<double> out, int n_threads) {
  const auto n = static_cast<int64_t>(out.shape(0));
  const auto n_bytes = static_cast<int64_t>(bits.shape(1));
  expect_size(weights, static_cast<int64_t>(bits.shape(0)), "weights");
  if (n_bytes != (n + 7) / 8)
    throw nb::value_error("bits must have one bit for each entry of out");
  const nb::gil_scoped_release release;
  sum_bits(bits.data(), n_bytes, weights.data(), static_cast<int64_t>(bits.shape(0)), out.data(), n,
           n_threads);
}

double search(Vector<double> p, Vector<double> e, Vector<double> cost, double slope,
              double curvature) {
  const auto n = static_cast<int64_t>(p.shape(0));
  expect_size(e, n, "e");
  expect_size(cost, n, "cost");
  const nb::gil_scoped_release release;
  return hinge_line_search(p.data(), e.data(), cost.data(), n, slope, curvature);
}

} // namespace

void bind_cutting_plane(nb::module_ &m) {
  m.def("margin_cut", &margin_cut_rows, nb::arg("rows"), nb::arg("w"), nb::arg("signed_cost"),
        nb::arg("scores"), nb::arg("active"), nb::arg("g"), nb::arg("n_threads"),
        "The cut of the hinge loss at w: fills in scores, active rows and g; returns r.");
  m.def("sum_bits", &sum_bit_rows, nb::arg("bits"), nb::arg("weights"), nb::arg("out"),
        nb::arg("n_threads"), "out[i] = sum_c weights[c] times bit i of bits[c].");
  m.def("hinge_line_search", &search, nb::arg("p"), nb::arg("e"), nb::arg("cost"), nb::arg("slope"),
        nb::arg("curvature"),
        "The k >= 0 that minimises slope k + curvature k^2 / 2 + sum cost max(0, 1 - p - k e).");
}

} // namespace bridle
