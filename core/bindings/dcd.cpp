#include "bindings.hpp"

#include "linear/dcd/descent.hpp"
#include "linear/dcd/streamed.hpp"

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

// `like`: rows of the kind that will come.
std::unique_ptr<StreamedDcd> make_streamed(const PyRows &like, const std::string &loss,
                                           Vector<double> w, double bias, double balance,
                                           double separable, double mean_squared_norm,
                                           double mean_cost, int64_t n_rows, bool from_zero,
                                           double bias_precision, int64_t n_blocks, int n_threads) {
  expect_size(w, n_weights(like), "w");
  if (n_blocks < 1)
    throw nb::value_error("n_blocks must be at least 1");
  const StreamedStart start{w.data(),          bias,      balance, separable,
                            mean_squared_norm, mean_cost, n_rows,  from_zero};
  return std::visit(
      [&](const auto &r, auto l) -> std::unique_ptr<StreamedDcd> {
        using On = StreamedDcdOn<std::decay_t<decltype(r)>, decltype(l)>;
        return std::make_unique<On>(r, start, bias_precision, n_blocks, n_threads);
      },
      like.view, loss_from_name(loss));
}

void check_visit(int64_t bucket, double share) {
  if (bucket < 1)
    throw nb::value_error("bucket must be at least 1");
  if (!(share > 0 && share <= 1))
    throw nb::value_error("share must be more than 0 and at most 1");
}

template <auto sample> DcdSample drawn(const DualCoordinateDescent &d, Rng &rng, int64_t n) {
  if (n < 1)
    throw nb::value_error("n must be at least 1");
  const nb::gil_scoped_release release;
  return (d.*sample)(rng, n);
}

template <auto visit>
void visit_part(StreamedDcd &self, const PyRows &rows, Vector<double> signed_cost,
                Vector<double> squared_norms, MutableVector<double> alpha,
                MutableVector<uint8_t> resting, Rng &rng, int64_t bucket) {
  expect_size(signed_cost, n_rows(rows), "signed_cost");
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(alpha, n_rows(rows), "alpha");
  expect_size(resting, n_rows(rows), "resting");
  if (bucket < 1)
    throw nb::value_error("bucket must be at least 1");
  const nb::gil_scoped_release release;
  // More than all rows is all rows.
  (self.*visit)(rows.view, signed_cost.data(), squared_norms.data(), alpha.data(), resting.data(),
                rng, std::min(bucket, std::max<int64_t>(1, n_rows(rows))));
}

template <class Value, class Column>
void append(const PyRows &rows, Vector<int64_t> chosen, int64_t used,
            MutableVector<int64_t> offsets, MutableVector<Column> columns,
            MutableVector<Value> values) {
  expect_size(offsets, static_cast<int64_t>(chosen.shape(0)), "offsets");
  const auto *from = std::get_if<CsrRows<Value, Column>>(&rows.view);
  const auto capacity = static_cast<int64_t>(std::min(columns.shape(0), values.shape(0)));
  if (!from || used < 0 || used > capacity)
    throw nb::value_error("the arrays are not of the rows' kind");
  const nb::gil_scoped_release release;
  append_rows(*from, std::span(chosen.data(), chosen.shape(0)), used, offsets.data(),
              columns.data(), values.data(), capacity);
}

template <class Value, class Column> void bind_append(nb::module_ &m) {
  m.def("append_rows", &append<Value, Column>, nb::arg("rows"), nb::arg("chosen"), nb::arg("used"),
        nb::arg("offsets").noconvert(), nb::arg("columns").noconvert(),
        nb::arg("values").noconvert(), "Copy the chosen rows behind others.");
}

} // namespace

void bind_dcd(nb::module_ &m) {
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
            check_visit(bucket, share);
            const nb::gil_scoped_release release;
            // More than all rows is all rows.
            return d.visit(rng, std::min(bucket, std::max<int64_t>(1, d.n_rows)), share);
          },
          nb::arg("rng"), nb::arg("bucket"), nb::arg("share"))
      .def("sample", &drawn<&DualCoordinateDescent::sample>, nb::arg("rng"), nb::arg("n"))
      .def("sample_resting", &drawn<&DualCoordinateDescent::sample_resting>, nb::arg("rng"),
           nb::arg("n"))
      .def(
          "visit_share",
          [](DualCoordinateDescent &d, Rng &rng, int64_t bucket, double share, Vector<double> w,
             double bias, double response, MutableVector<double> step) {
            check_visit(bucket, share);
            expect_size(w, d.n_weights, "w");
            expect_size(step, d.n_weights, "step");
            const nb::gil_scoped_release release;
            return d.visit_share(rng, std::min(bucket, std::max<int64_t>(1, d.n_rows)), share,
                                 w.data(), bias, response, step.data());
          },
          nb::arg("rng"), nb::arg("bucket"), nb::arg("share"), nb::arg("w"), nb::arg("bias"),
          nb::arg("response"), nb::arg("step"))
      .def(
          "set_caution",
          [](DualCoordinateDescent &d, Vector<double> caution) {
            expect_size(caution, d.n_weights, "caution");
            for (int64_t j = 0; j < d.n_weights; ++j)
              if (!(caution.data()[j] > 0 && std::isfinite(caution.data()[j])))
                throw nb::value_error("caution must be positive and finite");
            const nb::gil_scoped_release release;
            d.set_caution(caution.data());
          },
          nb::arg("caution"))
      .def("moved", &DualCoordinateDescent::moved)
      .def("keep", &DualCoordinateDescent::keep, nb::arg("part"))
      .def("unshrink", &DualCoordinateDescent::unshrink)
      .def_prop_ro("n_active", &DualCoordinateDescent::n_active)
      .def_ro("n_rows", &DualCoordinateDescent::n_rows)
      .def_ro("n_weights", &DualCoordinateDescent::n_weights)
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
  nb::class_<StreamedDcd>(m, "StreamedDcd")
      .def("visit", &visit_part<&StreamedDcd::visit>, nb::arg("rows"), nb::arg("signed_cost"),
           nb::arg("squared_norms"), nb::arg("alpha").noconvert(), nb::arg("resting").noconvert(),
           nb::arg("rng"), nb::arg("bucket"))
      .def("visit_again", &visit_part<&StreamedDcd::visit_again>, nb::arg("rows"),
           nb::arg("signed_cost"), nb::arg("squared_norms"), nb::arg("alpha").noconvert(),
           nb::arg("resting").noconvert(), nb::arg("rng"), nb::arg("bucket"))
      .def("end_epoch", &StreamedDcd::end_epoch)
      .def_prop_ro("bias", &StreamedDcd::bias)
      .def("weights", [](const StreamedDcd &d, MutableVector<double> out) {
        expect_size(out, d.n_weights, "out");
        d.weights(out.data());
      });
  m.def("streamed_dcd", &make_streamed, nb::arg("like"), nb::arg("loss"), nb::arg("w"),
        nb::arg("bias"), nb::arg("balance"), nb::arg("separable"), nb::arg("mean_squared_norm"),
        nb::arg("mean_cost"), nb::arg("n_rows"), nb::arg("from_zero"), nb::arg("bias_precision"),
        nb::arg("n_blocks"), nb::arg("n_threads"));
  bind_append<float, int32_t>(m);
  bind_append<float, int64_t>(m);
  bind_append<double, int32_t>(m);
  bind_append<double, int64_t>(m);
}

} // namespace bridle
