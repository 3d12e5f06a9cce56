#include "bindings.hpp"

#include "dcd.hpp"

#include <memory>

namespace bridle {
namespace {

std::unique_ptr<DualCoordinateDescent> make_dcd(const PyRows &rows, const std::string &loss,
                                                Vector<double> signed_cost,
                                                Vector<double> squared_norms, Vector<double> alpha,
                                                double bias, double bias_precision,
                                                int64_t n_blocks, int n_threads) {
  expect_size(signed_cost, n_rows(rows), "signed_cost");
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(alpha, n_rows(rows), "alpha");
  if (n_blocks < 1)
    throw nb::value_error("n_blocks must be at least 1");
  return std::visit(
      [&](const auto &r, auto l) -> std::unique_ptr<DualCoordinateDescent> {
        using On = DcdOn<std::decay_t<decltype(r)>, decltype(l)>;
        return std::make_unique<On>(r, signed_cost.data(), squared_norms.data(), alpha.data(), bias,
                                    bias_precision, n_blocks, n_threads);
      },
      rows.view, loss_from_name(loss));
}

} // namespace

void bind_dcd(nb::module_ &m) {
  nb::class_<DcdEpoch>(m, "DcdEpoch")
      .def_ro("visits", &DcdEpoch::visits)
      .def_ro("active", &DcdEpoch::active)
      .def_ro("gap", &DcdEpoch::gap)
      .def_ro("dual", &DcdEpoch::dual)
      .def_ro("whole", &DcdEpoch::whole);
  nb::class_<DualCoordinateDescent>(m, "DualCoordinateDescent")
      .def(
          "epoch",
          [](DualCoordinateDescent &d, Rng &rng, int64_t bucket) {
            if (bucket < 1)
              throw nb::value_error("bucket must be at least 1");
            const nb::gil_scoped_release release;
            // More than all rows is all rows.
            return d.epoch(rng, std::min(bucket, std::max<int64_t>(1, d.n_rows)));
          },
          nb::arg("rng"), nb::arg("bucket"))
      .def("unshrink", &DualCoordinateDescent::unshrink)
      .def_prop_ro("bias", &DualCoordinateDescent::bias)
      .def("alpha",
           [](const DualCoordinateDescent &d, MutableVector<double> out) {
             expect_size(out, d.n_rows, "out");
             d.alpha(out.data());
           })
      .def("weights", [](const DualCoordinateDescent &d, MutableVector<double> out) {
        expect_size(out, d.n_weights, "out");
        d.weights(out.data());
      });
  // The kernel reads the rows in place: they must outlive it.
  m.def("dual_coordinate_descent", &make_dcd, nb::arg("rows"), nb::arg("loss"),
        nb::arg("signed_cost"), nb::arg("squared_norms"), nb::arg("alpha"), nb::arg("bias"),
        nb::arg("bias_precision"), nb::arg("n_blocks"), nb::arg("n_threads"),
        nb::keep_alive<0, 1>());
}

} // namespace bridle
