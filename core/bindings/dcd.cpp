#include "dcd.hpp"

namespace bridle {

#define BRIDLE_HERE(...)                                                                           \
  template class ResidentRows<__VA_ARGS__>;                                                        \
  template class BlockVisits<__VA_ARGS__>;                                                         \
  template class DcdOn<__VA_ARGS__>;
BRIDLE_EACH_ROWS(BRIDLE_HERE)

namespace {

std::unique_ptr<DualCoordinateDescent>
make_dcd(const PyRows &rows, const PyLoss &loss, Vector<double> signed_cost,
         Vector<double> squared_norms, Vector<double> alpha, double bias, double bias_precision,
         int64_t n_blocks, int n_threads, const Targets &targets, double pull) {
  const RowSides sides = row_sides(rows, signed_cost, squared_norms, targets);
  expect_size(alpha, n_rows(rows), "alpha");
  check_blocks(n_blocks);
  const DcdSettings settings{bias,      bias_precision,          n_blocks,
                             n_threads, rows.columns_in_order(), pull};
  return make_descent<DualCoordinateDescent, DcdOn>(rows, loss, sides, alpha.data(), settings);
}

template <auto sample> DcdSample drawn(const DualCoordinateDescent &d, Rng &rng, int64_t n) {
  expect_between(n, 1, int64_t{1} << 32, "n");
  const nb::gil_scoped_release release;
  return (d.*sample)(rng, n);
}

} // namespace

void bind_dcd(nb::module_ &m) {
  m.attr("loss_names") = to_tuple(Losses::names());
  nb::class_<DcdEpoch>(m, "DcdEpoch")
      .def_ro("visits", &DcdEpoch::visits)
      .def_ro("active", &DcdEpoch::active)
      .def_ro("gap", &DcdEpoch::gap)
      .def_ro("dual", &DcdEpoch::dual)
      .def_ro("whole", &DcdEpoch::whole)
      .def_ro("finished", &DcdEpoch::finished);
  nb::class_<DcdSample>(m, "DcdSample")
      .def_ro("gap", &DcdSample::gap)
      .def_ro("error", &DcdSample::error);
  nb::class_<ProximalBias>(m, "ProximalBias")
      .def(nb::init<double, double>(), nb::arg("precision"), nb::arg("start"))
      .def("start", &ProximalBias::start, nb::arg("sigma"))
      .def("recentre", &ProximalBias::recentre, nb::arg("sigma"))
      .def("add", &ProximalBias::add, nb::arg("balance"))
      .def("set_balance", &ProximalBias::set_balance, nb::arg("balance"))
      .def_prop_ro("value", [](const ProximalBias &b) { return b.value(); })
      .def_prop_ro("response", &ProximalBias::response)
      .def_prop_ro("gap", &ProximalBias::gap)
      .def_prop_ro("dual", &ProximalBias::dual)
      .def_prop_ro("weight", [](const ProximalBias &b) { return b.weight(); });
  m.def("proximal_sigma", &proximal_sigma, nb::arg("mean_norm"), nb::arg("mean_cost"),
        nb::arg("n_inside"));
  nb::class_<DualCoordinateDescent>(m, "DualCoordinateDescent")
      .def(
          "visit",
          [](DualCoordinateDescent &d, Rng &rng, int64_t bucket, double share) {
            check_share(share);
            const int64_t rows = checked_bucket(bucket, d.n_rows);
            const nb::gil_scoped_release release;
            return d.visit(rng, rows, share);
          },
          nb::arg("rng"), nb::arg("bucket"), nb::arg("share"))
      .def("sample", &drawn<&DualCoordinateDescent::sample>, nb::arg("rng"), nb::arg("n"))
      .def("sample_resting", &drawn<&DualCoordinateDescent::sample_resting>, nb::arg("rng"),
           nb::arg("n"))
      .def("unshrink", &DualCoordinateDescent::unshrink, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("n_active", &DualCoordinateDescent::n_active)
      .def_ro("n_rows", &DualCoordinateDescent::n_rows)
      .def_ro("n_weights", &DualCoordinateDescent::n_weights)
      .def_prop_ro("bias", &DualCoordinateDescent::bias)
      .def("alpha", &write_alpha<DualCoordinateDescent>, nb::arg("out"))
      .def("weights", &write_weights<DualCoordinateDescent>, nb::arg("out"));
  // The rows are read in place: they must outlive the descent.
  m.def("dual_coordinate_descent", &make_dcd, nb::arg("rows"), nb::arg("loss"),
        nb::arg("signed_cost"), nb::arg("squared_norms"), nb::arg("alpha"), nb::arg("bias"),
        nb::arg("bias_precision"), nb::arg("n_blocks"), nb::arg("n_threads"),
        nb::arg("targets") = nb::none(), nb::arg("pull") = 0.0, nb::keep_alive<0, 1>());
  bind_dcd_part(m);
  bind_streamed_dcd(m);
}

} // namespace bridle
