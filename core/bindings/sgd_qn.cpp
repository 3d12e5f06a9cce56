#include "bindings.hpp"

#include "linear/norma.hpp"
#include "linear/sgd_qn.hpp"

namespace bridle {
namespace {

std::unique_ptr<SgdQn> make_sgd_qn(const PyRows &rows, const PyLoss &loss,
                                   Vector<double> signed_weight, Vector<double> start_w, double lam,
                                   double eta0, int64_t skip, const std::string &sampling,
                                   int64_t bucket, const std::optional<Vector<double>> &targets) {
  const RowSides sides = row_sides(rows, signed_weight, signed_weight, targets);
  expect_size(start_w, n_weights(rows), "start_w");
  expect_rows(rows);
  expect_between(skip, 1, most_counted, "skip");
  expect_positive(lam, "lam");
  expect_positive(eta0, "eta0");
  bucket = checked_bucket(bucket, n_rows(rows));
  return make_steps<SgdQn, SgdQnOn>(rows, AnySlope(loss_from(loss)), sides, start_w.data(), lam,
                                    eta0, skip, sampling_from_name(sampling), bucket);
}

std::unique_ptr<Norma> make_norma(const PyRows &rows, Vector<double> signed_cost,
                                  Vector<double> squared_norms, Vector<double> start_w,
                                  Vector<double> start_alpha, double rho, int64_t tau,
                                  const std::string &sampling, int64_t bucket) {
  expect_size(signed_cost, n_rows(rows), "signed_cost");
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(start_w, n_weights(rows), "start_w");
  expect_size(start_alpha, n_rows(rows), "start_alpha");
  expect_rows(rows);
  expect_between(tau, 1, most_counted, "tau");
  room_for(tau, 1, "a window");
  bucket = checked_bucket(bucket, n_rows(rows));
  if (!(rho > 0 && rho < 1))
    throw std::invalid_argument("rho must lie between 0 and 1");
  return make_steps<Norma, NormaOn>(rows, signed_cost.data(), squared_norms.data(), start_w.data(),
                                    start_alpha.data(), rho, tau, sampling_from_name(sampling),
                                    bucket);
}

} // namespace

void bind_sgd_qn(nb::module_ &m) {
  nb::class_<SgdQn>(m, "SgdQn")
      .def("run", &checked_run<SgdQn>, nb::arg("n_steps"), nb::arg("rng"))
      .def(
          "enter",
          [](SgdQn &self, const PyRows &rows, Vector<double> signed_weight,
             const std::optional<Vector<double>> &targets) {
            const RowSides sides = row_sides(rows, signed_weight, signed_weight, targets);
            const nb::gil_scoped_release release;
            self.enter(rows.view(), sides);
          },
          nb::arg("rows"), nb::arg("signed_weight").noconvert(),
          nb::arg("targets").noconvert() = nb::none(),
          "The steps to come are on this part, which must outlive them.")
      .def(
          "weights",
          [](const SgdQn &self, MutableVector<double> w) {
            expect_size(w, self.n_weights, "w");
            const nb::gil_scoped_release release;
            self.weights(w.data());
          },
          nb::arg("w"))
      .def(
          "scales",
          [](const SgdQn &self, MutableVector<double> b) {
            expect_size(b, self.n_weights, "b");
            const nb::gil_scoped_release release;
            self.scales(b.data());
          },
          nb::arg("b"));
  nb::class_<Norma>(m, "Norma")
      .def_ro("n_terms", &Norma::n_terms)
      .def("run", &checked_run<Norma>, nb::arg("n_steps"), nb::arg("rng"))
      .def(
          "output",
          [](const Norma &self, MutableVector<double> w, MutableVector<double> alpha) {
            expect_size(w, self.n_weights, "w");
            expect_size(alpha, self.n_rows, "alpha");
            const nb::gil_scoped_release release;
            self.output(w.data(), alpha.data());
          },
          nb::arg("w"), nb::arg("alpha"));
  // Rows, costs and squared norms are read in place: they must outlive what is made of them.
  m.def("sgd_qn", &make_sgd_qn, nb::arg("rows"), nb::arg("loss"),
        nb::arg("signed_weight").noconvert(), nb::arg("start_w"), nb::arg("lam"), nb::arg("eta0"),
        nb::arg("skip"), nb::arg("sampling"), nb::arg("bucket"),
        nb::arg("targets").noconvert() = nb::none(), nb::keep_alive<0, 1>(), nb::keep_alive<0, 3>(),
        nb::keep_alive<0, 10>());
  m.def("norma", &make_norma, nb::arg("rows"), nb::arg("signed_cost").noconvert(),
        nb::arg("squared_norms").noconvert(), nb::arg("start_w"), nb::arg("start_alpha"),
        nb::arg("rho"), nb::arg("tau"), nb::arg("sampling"), nb::arg("bucket"),
        nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
}

} // namespace bridle
