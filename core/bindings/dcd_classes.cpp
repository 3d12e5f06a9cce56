#include "dcd.hpp"

#include "linear/dcd/classes.hpp"

#include <nanobind/stl/vector.h>

namespace bridle {
namespace {

std::unique_ptr<ClassDescents> make_descents(const PyRows &rows, const std::string &loss,
                                             Vector<double> cost, Vector<int64_t> codes,
                                             Vector<double> squared_norms, int64_t n_classes,
                                             double bias_precision, int n_threads) {
  expect_size(cost, n_rows(rows), "cost");
  expect_size(codes, n_rows(rows), "codes");
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_between(n_classes, 1, 1 << 30, "n_classes");
  room_for(n_weights(rows), n_classes, "a table");
  room_for(n_rows(rows), n_classes, "a table");
  // Those by which lanes step.
  const auto hinge =
      LossList<Hinge, SquaredHinge>::make("loss of classes that are visited together", loss);
  const bool squared = std::holds_alternative<SquaredHinge>(hinge);
  const nb::gil_scoped_release release;
  return std::visit(
      [&](const auto &r) -> std::unique_ptr<ClassDescents> {
        using W = typename std::decay_t<decltype(r)>::Value;
        return std::make_unique<ClassDescentsOf<W>>(r, squared, cost.data(), codes.data(),
                                                    squared_norms.data(), n_classes, bias_precision,
                                                    n_threads);
      },
      rows.view());
}

void expect_class(const ClassDescents &d, int64_t k) {
  expect_between(k, 0, d.n_classes - 1, "class");
}

bool visit(ClassDescents &d, Rng &rng, int64_t bucket, double share) {
  if (!(share > 0 && share <= 1))
    throw nb::value_error("share must be more than 0 and at most 1");
  const int64_t rows = checked_bucket(bucket, d.n_rows);
  const nb::gil_scoped_release release;
  return d.visit(rng, rows, share);
}

std::vector<ClassSample> sample(const ClassDescents &d, Rng &rng, int64_t n) {
  expect_between(n, 1, int64_t{1} << 32, "n");
  const nb::gil_scoped_release release;
  return d.sample(rng, n);
}

} // namespace

void bind_dcd_classes(nb::module_ &m) {
  nb::class_<ClassReport>(m, "ClassReport")
      .def_ro("visits", &ClassReport::visits)
      .def_ro("active", &ClassReport::active)
      .def_ro("gap", &ClassReport::gap)
      .def_ro("dual", &ClassReport::dual)
      .def_ro("whole", &ClassReport::whole);
  nb::class_<ClassSample>(m, "ClassSample")
      .def_ro("gap", &ClassSample::gap)
      .def_ro("error", &ClassSample::error)
      .def_ro("resting", &ClassSample::resting)
      .def_ro("resting_error", &ClassSample::resting_error);
  nb::class_<ClassDescents>(m, "ClassDescents", "A descent for each class against the rest.")
      .def("visit", &visit, nb::arg("rng"), nb::arg("bucket"), nb::arg("share"),
           "Visit a share of an epoch for the classes that run; True at the end of the epoch.")
      .def_prop_ro("work", &ClassDescents::work)
      .def_prop_ro("n_groups", &ClassDescents::n_groups)
      .def("sample", &sample, nb::arg("rng"), nb::arg("n"))
      .def(
          "report",
          [](const ClassDescents &d, int64_t k) {
            expect_class(d, k);
            return d.report(k);
          },
          nb::arg("k"))
      .def(
          "run",
          [](ClassDescents &d, int64_t k, bool running) {
            expect_class(d, k);
            d.run(k, running);
          },
          nb::arg("k"), nb::arg("running"))
      .def(
          "unshrink",
          [](ClassDescents &d, int64_t k) {
            expect_class(d, k);
            const nb::gil_scoped_release release;
            d.unshrink(k);
          },
          nb::arg("k"))
      .def(
          "alone",
          [](const ClassDescents &d, int64_t k) {
            expect_class(d, k);
            const nb::gil_scoped_release release;
            return d.alone(k);
          },
          nb::arg("k"), nb::keep_alive<0, 1>(), "The descent of class k, from where it is now.")
      .def(
          "bias",
          [](const ClassDescents &d, int64_t k) {
            expect_class(d, k);
            return d.bias(k);
          },
          nb::arg("k"))
      .def(
          "alpha",
          [](const ClassDescents &d, int64_t k, MutableVector<double> out) {
            expect_class(d, k);
            expect_size(out, d.n_rows, "out");
            const nb::gil_scoped_release release;
            d.alpha(k, out.data());
          },
          nb::arg("k"), nb::arg("out"))
      .def(
          "weights",
          [](const ClassDescents &d, int64_t k, MutableVector<double> out) {
            expect_class(d, k);
            expect_size(out, d.n_weights, "out");
            const nb::gil_scoped_release release;
            d.weights(k, out.data());
          },
          nb::arg("k"), nb::arg("out"));
  // The rows are read in place: they must outlive the descents.
  m.def("class_descents", &make_descents, nb::arg("rows"), nb::arg("loss"), nb::arg("cost"),
        nb::arg("codes"), nb::arg("squared_norms"), nb::arg("n_classes"), nb::arg("bias_precision"),
        nb::arg("n_threads"), nb::keep_alive<0, 1>());
}

} // namespace bridle
