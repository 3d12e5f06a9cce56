#include "bindings.hpp"

#include "linear/margin_perceptron.hpp"
#include "linear/mpu.hpp"

namespace bridle {
namespace {

constexpr int64_t most_repeats = 1 << 24;

// As many entries as the data has rows, of which `rows` may be the first part.
int64_t rows_of_data(const PyRows &rows, const Vector<double> &start, const char *name) {
  const auto n = static_cast<int64_t>(start.shape(0));
  if (n < n_rows(rows))
    expect_size(start, n_rows(rows), name);
  return n;
}

template <class Steps>
void enter_part(Steps &self, const PyRows &rows, Vector<double> signed_cost,
                Vector<double> squared_norms, int64_t first) {
  expect_size(signed_cost, n_rows(rows), "signed_cost");
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  const nb::gil_scoped_release release;
  self.enter(rows.view(), signed_cost.data(), squared_norms.data(), first);
}

std::unique_ptr<MarginPerceptron>
make_margin_perceptron(const PyRows &rows, Vector<double> signed_weight,
                       Vector<double> squared_norms, Vector<double> start_a,
                       Vector<double> start_counts, double offset, double slope, int64_t presented,
                       int64_t repeat, const std::string &repeats, const std::string &sampling,
                       int64_t bucket) {
  expect_size(signed_weight, n_rows(rows), "signed_weight");
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(start_a, n_weights(rows), "start_a");
  const int64_t n = rows_of_data(rows, start_counts, "start_counts");
  expect_rows(rows);
  expect_between(presented, 0, most_counted, "presented");
  expect_between(repeat, 1, most_repeats, "repeat");
  bucket = checked_bucket(bucket, n_rows(rows));
  const MarginPerceptronSettings settings{
      offset, slope, presented, repeat, repeats_from_name(repeats), sampling_from_name(sampling),
      bucket};
  return make_steps<MarginPerceptron, MarginPerceptronOn>(rows, signed_weight.data(),
                                                          squared_norms.data(), start_a.data(),
                                                          start_counts.data(), n, settings);
}

std::unique_ptr<MarginPerceptronUnlearning> make_mpu(const PyRows &rows, Vector<double> signed_cost,
                                                     Vector<double> squared_norms,
                                                     Vector<double> start_w,
                                                     Vector<double> start_quanta, double quanta,
                                                     bool many, int64_t bucket) {
  expect_size(signed_cost, n_rows(rows), "signed_cost");
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(start_w, n_weights(rows), "start_w");
  const int64_t n = rows_of_data(rows, start_quanta, "start_quanta");
  expect_rows(rows);
  if (!(quanta >= 1 && std::isfinite(quanta)))
    refuse("quanta must be at least 1, and finite");
  for (int64_t i = 0; i < n; ++i)
    if (!(start_quanta.data()[i] >= 0 && start_quanta.data()[i] <= quanta))
      refuse("start_quanta must be in 0..quanta");
  bucket = checked_bucket(bucket, n_rows(rows));
  return make_steps<MarginPerceptronUnlearning, MpuOn>(
      rows, signed_cost.data(), squared_norms.data(), start_w.data(), start_quanta.data(), quanta,
      many, bucket, n);
}

} // namespace

void bind_perceptrons(nb::module_ &m) {
  nb::class_<MarginPerceptron>(m, "MarginPerceptron")
      .def("run", &checked_run<MarginPerceptron>, nb::arg("n_visits"), nb::arg("rng"))
      .def("enter", &enter_part<MarginPerceptron>, nb::arg("rows"),
           nb::arg("signed_weight").noconvert(), nb::arg("squared_norms").noconvert(),
           nb::arg("first"), "The visits to come are on this part, which must outlive them.")
      .def(
          "output",
          [](const MarginPerceptron &self, MutableVector<double> a, MutableVector<double> counts) {
            expect_size(a, self.n_weights, "a");
            expect_size(counts, self.n_rows, "counts");
            const nb::gil_scoped_release release;
            self.output(a.data(), counts.data());
          },
          nb::arg("a"), nb::arg("counts"))
      .def(
          "set_repeat",
          [](MarginPerceptron &self, int64_t repeat) {
            expect_between(repeat, 1, most_repeats, "repeat");
            self.repeat = repeat;
          },
          nb::arg("repeat"))
      .def_rw("bias", &MarginPerceptron::bias)
      .def_ro("presented", &MarginPerceptron::presented)
      .def_ro("updates", &MarginPerceptron::updates)
      .def_rw("weighted_sum", &MarginPerceptron::weighted_sum)
      .def_ro("squared_norm", &MarginPerceptron::squared_norm)
      .def_ro("hinge", &MarginPerceptron::hinge);
  nb::class_<MarginPerceptronUnlearning>(m, "MarginPerceptronUnlearning")
      .def("run", &checked_run<MarginPerceptronUnlearning>, nb::arg("n_visits"), nb::arg("rng"))
      .def("enter", &enter_part<MarginPerceptronUnlearning>, nb::arg("rows"),
           nb::arg("signed_cost").noconvert(), nb::arg("squared_norms").noconvert(),
           nb::arg("first"), "The visits to come are on this part, which must outlive them.")
      .def("halve_quanta", &MarginPerceptronUnlearning::halve_quanta,
           nb::call_guard<nb::gil_scoped_release>())
      .def(
          "output",
          [](const MarginPerceptronUnlearning &self, MutableVector<double> w,
             MutableVector<double> shares) {
            expect_size(w, self.n_weights, "w");
            expect_size(shares, self.n_rows, "shares");
            const nb::gil_scoped_release release;
            self.output(w.data(), shares.data());
          },
          nb::arg("w"), nb::arg("shares"), "w, and alpha_i / C_i of each row.")
      .def_prop_ro("dual", &MarginPerceptronUnlearning::dual)
      .def_rw("total", &MarginPerceptronUnlearning::total)
      .def_ro("updates", &MarginPerceptronUnlearning::updates)
      .def_ro("gap", &MarginPerceptronUnlearning::gap);
  // Rows, weights and squared norms are read in place: they must outlive what is made of them.
  m.def("margin_perceptron", &make_margin_perceptron, nb::arg("rows"),
        nb::arg("signed_weight").noconvert(), nb::arg("squared_norms").noconvert(),
        nb::arg("start_a"), nb::arg("start_counts"), nb::kw_only(), nb::arg("offset"),
        nb::arg("slope"), nb::arg("presented"), nb::arg("repeat"), nb::arg("repeats"),
        nb::arg("sampling"), nb::arg("bucket"), nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(),
        nb::keep_alive<0, 3>());
  m.def("margin_perceptron_unlearning", &make_mpu, nb::arg("rows"),
        nb::arg("signed_cost").noconvert(), nb::arg("squared_norms").noconvert(),
        nb::arg("start_w"), nb::arg("start_quanta"), nb::arg("quanta"), nb::arg("many"),
        nb::arg("bucket"), nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
}

} // namespace bridle
