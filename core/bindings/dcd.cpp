#include "bindings.hpp"

#include "linear/dcd/descent.hpp"
#include "linear/dcd/part.hpp"
#include "linear/dcd/streamed.hpp"

namespace bridle {
namespace {

using Targets = std::optional<Vector<double>>;

void check_blocks(int64_t n_blocks) {
  expect_between(n_blocks, 1, 1 << 16, "n_blocks"); // each has a copy of the weights
}

void check_share(double share) {
  if (!(share > 0 && share <= 1))
    throw nb::value_error("share must be more than 0 and at most 1");
}

std::unique_ptr<DcdPart> make_part(const PyRows &rows, const PyLoss &loss,
                                   Vector<double> signed_cost, Vector<double> squared_norms,
                                   Vector<double> alpha, const Targets &targets) {
  const RowSides sides = row_sides(rows, signed_cost, squared_norms, targets);
  expect_size(alpha, n_rows(rows), "alpha");
  return make_steps_by<DcdPart, DcdPartOn>(loss, rows, sides, alpha.data());
}

std::unique_ptr<DualCoordinateDescent>
make_dcd(const PyRows &rows, const PyLoss &loss, Vector<double> signed_cost,
         Vector<double> squared_norms, Vector<double> alpha, double bias, double bias_precision,
         int64_t n_blocks, int n_threads, const Targets &targets) {
  const RowSides sides = row_sides(rows, signed_cost, squared_norms, targets);
  expect_size(alpha, n_rows(rows), "alpha");
  check_blocks(n_blocks);
  const DcdSettings settings{bias, bias_precision, n_blocks, n_threads};
  return make_steps_by<DualCoordinateDescent, DcdOn>(loss, rows, sides, alpha.data(), settings);
}

DcdShare visit_share(DcdPart &part, Rng &rng, int64_t bucket, double share, Vector<double> w,
                     double bias, double response, MutableVector<double> step) {
  check_share(share);
  bucket = checked_bucket(bucket, part.n_rows);
  expect_size(w, part.n_weights, "w");
  expect_size(step, part.n_weights, "step");
  const nb::gil_scoped_release release;
  return part.visit(rng, bucket, share, w.data(), bias, response, step.data());
}

void set_caution(DcdPart &part, Vector<double> caution) {
  expect_size(caution, part.n_weights, "caution");
  for (int64_t j = 0; j < part.n_weights; ++j)
    if (!(caution.data()[j] > 0 && std::isfinite(caution.data()[j])))
      throw nb::value_error("caution must be positive and finite");
  const nb::gil_scoped_release release;
  part.set_caution(caution.data());
}

// `like`: rows of the kind that will come.
std::unique_ptr<StreamedDcd> make_streamed(const PyRows &like, const PyLoss &loss, Vector<double> w,
                                           double bias, double balance, double separable,
                                           double mean_squared_norm, double mean_cost,
                                           int64_t n_rows, bool from_zero, double bias_precision,
                                           int64_t n_blocks, int n_threads) {
  expect_size(w, n_weights(like), "w");
  check_blocks(n_blocks);
  expect_between(n_rows, 0, most_counted, "n_rows");
  const StreamedStart start{w.data(),          bias,      balance, separable,
                            mean_squared_norm, mean_cost, n_rows,  from_zero};
  return make_steps_by<StreamedDcd, StreamedDcdOn>(loss, like, start, bias_precision, n_blocks,
                                                   n_threads);
}

template <class Descent> void write_alpha(const Descent &d, MutableVector<double> out) {
  expect_size(out, d.n_rows, "out");
  d.alpha(out.data());
}

template <class Descent> void write_weights(const Descent &d, MutableVector<double> out) {
  expect_size(out, d.n_weights, "out");
  d.weights(out.data());
}

template <auto sample> DcdSample drawn(const DualCoordinateDescent &d, Rng &rng, int64_t n) {
  expect_between(n, 1, int64_t{1} << 32, "n");
  const nb::gil_scoped_release release;
  return (d.*sample)(rng, n);
}

template <auto visit>
void visit_part(StreamedDcd &self, const PyRows &rows, Vector<double> signed_cost,
                Vector<double> squared_norms, MutableVector<double> alpha,
                MutableVector<uint8_t> resting, Rng &rng, int64_t bucket, const Targets &targets) {
  const RowSides sides = row_sides(rows, signed_cost, squared_norms, targets);
  expect_size(alpha, n_rows(rows), "alpha");
  expect_size(resting, n_rows(rows), "resting");
  bucket = checked_bucket(bucket, n_rows(rows));
  const nb::gil_scoped_release release;
  (self.*visit)(rows.view(), sides, alpha.data(), resting.data(), rng, bucket);
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
  nb::class_<DcdShare>(m, "DcdShare")
      .def_ro("visits", &DcdShare::visits)
      .def_ro("inside", &DcdShare::inside)
      .def_ro("gap", &DcdShare::gap)
      .def_ro("balance", &DcdShare::balance)
      .def_ro("finished", &DcdShare::finished)
      .def_ro("whole", &DcdShare::whole);
  nb::class_<DcdMove>(m, "DcdMove")
      .def_ro("separable", &DcdMove::separable)
      .def_ro("balance", &DcdMove::balance)
      .def_ro("curvature", &DcdMove::curvature);
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
      .def("unshrink", &DualCoordinateDescent::unshrink)
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
        nb::arg("targets") = nb::none(), nb::keep_alive<0, 1>());
  nb::class_<DcdPart>(m, "DcdPart", "One of many parts of a problem, the other rows elsewhere.")
      .def("visit", &visit_share, nb::arg("rng"), nb::arg("bucket"), nb::arg("share"), nb::arg("w"),
           nb::arg("bias"), nb::arg("response"), nb::arg("step"),
           "Visit the next share of an epoch from these weights; add the step to `step`.")
      .def("set_caution", &set_caution, nb::arg("caution"))
      .def("moved", &DcdPart::moved)
      .def("keep", &DcdPart::keep, nb::arg("part"))
      .def("unshrink", &DcdPart::unshrink)
      .def_prop_ro("n_active", &DcdPart::n_active)
      .def_ro("n_rows", &DcdPart::n_rows)
      .def_ro("n_weights", &DcdPart::n_weights)
      .def("alpha", &write_alpha<DcdPart>, nb::arg("out"));
  m.def("dcd_part", &make_part, nb::arg("rows"), nb::arg("loss"), nb::arg("signed_cost"),
        nb::arg("squared_norms"), nb::arg("alpha"), nb::arg("targets") = nb::none(),
        nb::keep_alive<0, 1>());
  nb::class_<StreamedDcd>(m, "StreamedDcd")
      .def("visit", &visit_part<&StreamedDcd::visit>, nb::arg("rows"), nb::arg("signed_cost"),
           nb::arg("squared_norms"), nb::arg("alpha").noconvert(), nb::arg("resting").noconvert(),
           nb::arg("rng"), nb::arg("bucket"), nb::arg("targets") = nb::none())
      .def("visit_again", &visit_part<&StreamedDcd::visit_again>, nb::arg("rows"),
           nb::arg("signed_cost"), nb::arg("squared_norms"), nb::arg("alpha").noconvert(),
           nb::arg("resting").noconvert(), nb::arg("rng"), nb::arg("bucket"),
           nb::arg("targets") = nb::none())
      .def("end_epoch", &StreamedDcd::end_epoch)
      .def_prop_ro("bias", &StreamedDcd::bias)
      .def("weights", &write_weights<StreamedDcd>, nb::arg("out"));
  m.def("streamed_dcd", &make_streamed, nb::arg("like"), nb::arg("loss"), nb::arg("w"),
        nb::arg("bias"), nb::arg("balance"), nb::arg("separable"), nb::arg("mean_squared_norm"),
        nb::arg("mean_cost"), nb::arg("n_rows"), nb::arg("from_zero"), nb::arg("bias_precision"),
        nb::arg("n_blocks"), nb::arg("n_threads"));
}

} // namespace bridle
