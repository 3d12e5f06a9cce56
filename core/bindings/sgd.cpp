#include "bindings.hpp"

#include "linear/sgd.hpp"

namespace bridle {
namespace {

Output output_from_name(const std::string &name) {
  if (name == "last")
    return Output::last;
  if (name == "average")
    return Output::average;
  if (name == "random")
    return Output::random;
  throw std::invalid_argument("unknown output: " + name);
}

using Targets = std::optional<Vector<double>>;

std::unique_ptr<StochasticGradient> make_sgd(const PyRows &rows, const PyLoss &loss,
                                             Vector<double> signed_cost,
                                             Vector<double> squared_norms, Vector<double> start_w,
                                             double start_bias, Vector<double> start_alpha,
                                             SgdSettings settings, const Targets &targets) {
  const RowSides sides = row_sides(rows, signed_cost, squared_norms, targets);
  expect_size(start_w, n_weights(rows), "start_w");
  const auto n = static_cast<int64_t>(start_alpha.shape(0));
  if (n < n_rows(rows) || n_rows(rows) < 1)
    throw std::invalid_argument(
        "start_alpha must have an entry for each row, and there must be one");
  if (settings.batch < 1 || settings.batch > n)
    throw std::invalid_argument("batch must be in 1.." + std::to_string(n));
  if (n > n_rows(rows) && settings.sampling != Sampling::epochs)
    throw std::invalid_argument("parts of the data are sampled in epochs");
  expect_between(settings.steps_before, 0, most_counted, "steps_before");
  settings.bucket = checked_bucket(settings.bucket, n);
  return make_steps<StochasticGradient, SgdOn>(rows, AnySlope(loss_from(loss)), sides,
                                               start_w.data(), start_bias, start_alpha.data(), n,
                                               settings);
}

} // namespace

void bind_sgd(nb::module_ &m) {
  nb::class_<Rate>(m, "Rate", "scale (offset + t)^-power, at most 1 if clipped")
      .def(
          "__init__",
          [](Rate *self, double scale, double offset, double power, bool clip) {
            new (self) Rate{scale, offset, power, clip};
          },
          nb::arg("scale"), nb::arg("offset"), nb::arg("power"), nb::arg("clip") = true)
      .def_ro("clip", &Rate::clip)
      .def("at", &Rate::at, nb::arg("t"));
  nb::class_<SgdSettings>(m, "SgdSettings")
      .def(
          "__init__",
          [](SgdSettings *self, const Rate &rate, int64_t steps_before, int64_t batch,
             double radius, double bias_rate, const std::string &sampling, int64_t bucket,
             bool keep_random) {
            new (self) SgdSettings{rate,   steps_before, batch,
                                   radius, bias_rate,    sampling_from_name(sampling),
                                   bucket, keep_random};
          },
          nb::kw_only(), nb::arg("rate"), nb::arg("steps_before"), nb::arg("batch"),
          nb::arg("radius"), nb::arg("bias_rate"), nb::arg("sampling"), nb::arg("bucket"),
          nb::arg("keep_random"));
  nb::class_<StochasticGradient>(m, "StochasticGradient")
      .def("run", &checked_run<StochasticGradient>, nb::arg("n_steps"), nb::arg("rng"))
      .def(
          "enter",
          [](StochasticGradient &self, const PyRows &rows, Vector<double> signed_cost,
             Vector<double> squared_norms, int64_t first, const Targets &targets) {
            const RowSides sides = row_sides(rows, signed_cost, squared_norms, targets);
            const nb::gil_scoped_release release;
            self.enter(rows.view(), sides, first);
          },
          nb::arg("rows"), nb::arg("signed_cost").noconvert(), nb::arg("squared_norms").noconvert(),
          nb::arg("first"), nb::arg("targets").noconvert() = nb::none(),
          "The steps to come are on this part, which must outlive them.")
      .def(
          "set_rate",
          [](StochasticGradient &self, Rate rate, int64_t t) {
            expect_between(t, 0, most_counted, "t");
            self.set_rate(rate, t);
          },
          nb::arg("rate"), nb::arg("t"))
      .def("set_bias", &StochasticGradient::set_bias, nb::arg("bias"))
      .def("restart_average", &StochasticGradient::restart_average,
           nb::call_guard<nb::gil_scoped_release>())
      .def(
          "output",
          [](const StochasticGradient &self, const std::string &which, MutableVector<double> w,
             MutableVector<double> alpha) {
            expect_size(w, self.n_weights, "w");
            expect_size(alpha, self.n_rows, "alpha");
            const nb::gil_scoped_release release;
            return self.output(output_from_name(which), w.data(), alpha.data());
          },
          nb::arg("which"), nb::arg("w"), nb::arg("alpha"));
  // noconvert: a converted copy would be gone by the time it is read.
  // Rows, costs, squared norms and targets are read in place: they must outlive it, or its use
  // until it enters others. Where start_alpha has more entries than there are rows, the rows are
  // the first part of the data.
  m.def("stochastic_gradient", &make_sgd, nb::arg("rows"), nb::arg("loss"),
        nb::arg("signed_cost").noconvert(), nb::arg("squared_norms").noconvert(),
        nb::arg("start_w"), nb::arg("start_bias"), nb::arg("start_alpha"), nb::arg("settings"),
        nb::arg("targets").noconvert() = nb::none(), nb::keep_alive<0, 1>(), nb::keep_alive<0, 3>(),
        nb::keep_alive<0, 4>(), nb::keep_alive<0, 9>());
}

} // namespace bridle
