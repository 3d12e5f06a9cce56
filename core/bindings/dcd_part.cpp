#include "dcd.hpp"

#include "linear/dcd/part.hpp"

#include <nanobind/stl/array.h>

#include <array>
#include <cmath>

namespace bridle {
namespace {

std::unique_ptr<DcdPart> make_part(const PyRows &rows, const PyLoss &loss,
                                   Vector<double> signed_cost, Vector<double> squared_norms,
                                   Vector<double> alpha, const Targets &targets) {
  const RowSides sides = row_sides(rows, signed_cost, squared_norms, targets);
  expect_size(alpha, n_rows(rows), "alpha");
  return make_descent<DcdPart, DcdPartOn>(rows, loss, sides, alpha.data());
}

DcdShare visit_share(DcdPart &part, Rng &rng, int64_t bucket, double share, Vector<double> w,
                     double bias, double response, MutableVector<double> step, double balance,
                     const std::optional<std::array<double, 4>> &first) {
  check_share(share);
  bucket = checked_bucket(bucket, part.n_rows);
  expect_size(w, part.n_weights, "w");
  expect_size(step, part.n_weights, "step");
  std::optional<FirstShare> begun;
  if (first)
    begun = FirstShare{(*first)[0], (*first)[1], (*first)[2], (*first)[3]};
  const nb::gil_scoped_release release;
  return part.visit(rng, bucket, share, {w.data(), bias, response, balance}, begun, step.data());
}

void set_caution(DcdPart &part, Vector<double> caution) {
  expect_size(caution, part.n_weights, "caution");
  const nb::gil_scoped_release release;
  for (int64_t j = 0; j < part.n_weights; ++j)
    if (!(caution.data()[j] > 0 && std::isfinite(caution.data()[j])))
      throw nb::value_error("caution must be positive and finite");
  part.set_caution(caution.data());
}

DcdLook look_at(DcdPart &part, Rng &rng, int64_t n, Vector<double> w, double bias) {
  expect_between(n, 1, int64_t{1} << 32, "n");
  expect_size(w, part.n_weights, "w");
  const nb::gil_scoped_release release;
  return part.look(rng, n, w.data(), bias);
}

void set_alpha(DcdPart &part, Vector<int64_t> rows, Vector<double> alpha) {
  expect_size(alpha, static_cast<int64_t>(rows.size()), "alpha");
  for (int64_t k = 0; k < static_cast<int64_t>(rows.size()); ++k)
    expect_between(rows.data()[k], 0, part.n_rows - 1, "rows");
  const nb::gil_scoped_release release;
  part.set_alpha(rows.data(), static_cast<int64_t>(rows.size()), alpha.data());
}

void write_resting(const DcdPart &part, MutableVector<uint8_t> out) {
  expect_size(out, part.n_rows, "out");
  const nb::gil_scoped_release release;
  part.resting(out.data());
}

void score(DcdPart &part, Vector<double> w, double bias, MutableVector<double> out) {
  expect_size(w, part.n_weights, "w");
  expect_size(out, part.n_rows, "out");
  const nb::gil_scoped_release release;
  part.scores(w.data(), bias, out.data());
}

} // namespace

void bind_dcd_part(nb::module_ &m) {
  nb::class_<DcdShare>(m, "DcdShare")
      .def_ro("visits", &DcdShare::visits)
      .def_ro("inside", &DcdShare::inside)
      .def_ro("gap", &DcdShare::gap)
      .def_ro("balance", &DcdShare::balance)
      .def_ro("finished", &DcdShare::finished)
      .def_ro("whole", &DcdShare::whole);
  nb::class_<DcdLook>(m, "DcdLook")
      .def_ro("active", &DcdLook::active)
      .def_ro("resting", &DcdLook::resting);
  nb::class_<DcdMove>(m, "DcdMove")
      .def_ro("separable", &DcdMove::separable)
      .def_ro("balance", &DcdMove::balance)
      .def_ro("curvature", &DcdMove::curvature)
      .def_ro("rows", &DcdMove::rows);
  nb::class_<DcdPart>(m, "DcdPart", "One of many parts of a problem, the other rows elsewhere.")
      .def("visit", &visit_share, nb::arg("rng"), nb::arg("bucket"), nb::arg("share"), nb::arg("w"),
           nb::arg("bias"), nb::arg("response"), nb::arg("step"), nb::arg("balance") = 0.0,
           nb::arg("first") = nb::none(),
           "Visit the next share of an epoch from these weights; add the step to `step`.")
      .def("set_caution", &set_caution, nb::arg("caution"))
      .def("look", &look_at, nb::arg("rng"), nb::arg("n"), nb::arg("w"), nb::arg("bias"),
           "The gap of some rows that are drawn, in play and at rest, at these weights.")
      .def("scores", &score, nb::arg("w"), nb::arg("bias"), nb::arg("out"),
           "Of the rows in play, at these weights; NaN for those that rest.")
      .def("moved", &DcdPart::moved, nb::call_guard<nb::gil_scoped_release>())
      .def("keep", &DcdPart::keep, nb::arg("part"), nb::call_guard<nb::gil_scoped_release>())
      .def("unshrink", &DcdPart::unshrink, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("n_active", &DcdPart::n_active)
      .def_ro("n_rows", &DcdPart::n_rows)
      .def_ro("n_weights", &DcdPart::n_weights)
      .def("alpha", &write_alpha<DcdPart>, nb::arg("out"))
      .def("set_alpha", &set_alpha, nb::arg("rows"), nb::arg("alpha"),
           "The dual variables of these rows, from outside.")
      .def("resting", &write_resting, nb::arg("out"), "1: the row was left out.");
  m.def("dcd_part", &make_part, nb::arg("rows"), nb::arg("loss"), nb::arg("signed_cost"),
        nb::arg("squared_norms"), nb::arg("alpha"), nb::arg("targets") = nb::none(),
        nb::keep_alive<0, 1>());
}

} // namespace bridle
