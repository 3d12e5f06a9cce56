#include "bindings.hpp"

#include "kernel/expand.hpp"
#include "kernel/mercer.hpp"
#include "kernel/sgd.hpp"
#include "kernel/smo.hpp"

#include <numeric>

namespace bridle {
namespace {

Kernel make_kernel(const std::string &name, double gamma, double coef0, int degree,
                   double constant) {
  if (degree < 0)
    throw std::invalid_argument("degree must not be negative");
  return kernel_from_name(name, {gamma, coef0, degree}, constant);
}

int64_t n_features(const PyRows &rows) { return n_weights(rows) - 1; }

void expect_same_features(const PyRows &rows, const PyRows &centres) {
  if (n_features(rows) != n_features(centres))
    throw std::invalid_argument("the rows have " + std::to_string(n_features(rows)) +
                                " features, the centres " + std::to_string(n_features(centres)));
}

// Values in float64 of a kernel on these rows.
std::unique_ptr<KernelSource<double>> exact_source(const Kernel &kernel, const PyRows &rows,
                                                   const double *squared_norms) {
  return std::visit([&](const auto &r) { return make_source<double>(kernel, r, squared_norms); },
                    rows.view());
}

// Rows of any matrix, as centres for these.
auto packer(const KernelSource<double> &source, const PyRows &centres,
            const double *squared_norms) {
  return [=, &source, &any = centres.view()](std::span<const int64_t> chosen,
                                             Panels<double> &panels) {
    std::visit([&](const auto &c) { pack_centres(source, c, squared_norms, chosen, panels); }, any);
  };
}

// out[i] = sum_c coefficients[c] K(x_i, c), in float64.
void expand_kernel(const Kernel &kernel, const PyRows &rows, Vector<double> squared_norms,
                   const PyRows &centres, Vector<double> centre_norms, Vector<double> coefficients,
                   MutableVector<double> out, int n_threads) {
  const bool precomputed = kernel.precomputed();
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(out, n_rows(rows), "out");
  const int64_t n_centres = precomputed ? n_features(rows) : n_rows(centres);
  if (!precomputed)
    expect_same_features(rows, centres);
  expect_size(centre_norms, n_rows(centres), "centre_norms");
  expect_size(coefficients, n_centres, "coefficients");
  const nb::gil_scoped_release release;
  const auto source = exact_source(kernel, rows, squared_norms.data());
  const auto pack_others = packer(*source, centres, centre_norms.data());
  std::vector<int64_t> all(n_rows(rows));
  std::iota(all.begin(), all.end(), int64_t{0});
  expand<double>(
      *source, std::span(coefficients.data(), n_centres), all,
      [&](std::span<const int64_t> chosen, Panels<double> &panels) {
        if (precomputed)
          source->pack(chosen, panels);
        else
          pack_others(chosen, panels);
      },
      out.data(), n_threads);
}

// out[i][c] = K(x_i, c), in float64.
void fill_kernel_matrix(const Kernel &kernel, const PyRows &rows, Vector<double> squared_norms,
                        const PyRows &centres, Vector<double> centre_norms,
                        nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out,
                        int n_threads) {
  if (kernel.precomputed())
    throw std::invalid_argument("a precomputed kernel is its own matrix");
  expect_same_features(rows, centres);
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(centre_norms, n_rows(centres), "centre_norms");
  if (static_cast<int64_t>(out.shape(0)) != n_rows(rows) ||
      static_cast<int64_t>(out.shape(1)) != n_rows(centres))
    throw std::invalid_argument("out must be of shape rows x centres");
  double *values = out.data();
  const nb::gil_scoped_release release;
  const auto source = exact_source(kernel, rows, squared_norms.data());
  const auto pack = packer(*source, centres, centre_norms.data());
  kernel_matrix<double>(*source, n_rows(centres), pack, values, n_threads);
}

void expect_square(const Kernel &kernel, const PyRows &rows) {
  if (kernel.precomputed() && n_features(rows) != n_rows(rows))
    throw std::invalid_argument("a precomputed kernel must be square");
}

std::unique_ptr<Smo> make_smo(const Kernel &kernel, const PyRows &rows,
                              Vector<double> squared_norms, Vector<double> linear,
                              Vector<double> lower, Vector<double> upper,
                              std::optional<Vector<double>> ridge, double tube, bool free_bias,
                              Vector<double> coefficients, Vector<double> scores, int64_t set_size,
                              int64_t cache_bytes, int n_threads) {
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(linear, n_rows(rows), "linear");
  expect_size(lower, n_rows(rows), "lower");
  expect_size(upper, n_rows(rows), "upper");
  if (ridge)
    expect_size(*ridge, n_rows(rows), "ridge");
  expect_size(coefficients, n_rows(rows), "coefficients");
  expect_size(scores, n_rows(rows), "scores");
  expect_rows(rows);
  expect_square(kernel, rows);
  const nb::gil_scoped_release release;
  for (int64_t i = 0; i < n_rows(rows); ++i)
    if (!(lower.data()[i] <= upper.data()[i]))
      throw std::invalid_argument("row " + std::to_string(i) +
                                  " has a lower bound above the upper");
  const SmoDual dual{linear.data(), lower.data(), upper.data(), ridge ? ridge->data() : nullptr,
                     tube,          free_bias};
  return std::visit(
      [&](const auto &r) -> std::unique_ptr<Smo> {
        using T = typename std::decay_t<decltype(r)>::Value;
        if (cache_bytes < 2 * n_rows(rows) * static_cast<int64_t>(sizeof(T)))
          throw std::invalid_argument("the cache must hold two kernel rows");
        return std::make_unique<SmoOn<T>>(make_source<T>(kernel, r, squared_norms.data()), dual,
                                          coefficients.data(), scores.data(), set_size, cache_bytes,
                                          n_threads);
      },
      rows.view());
}

std::unique_ptr<KernelSgd>
make_kernel_sgd(const Kernel &kernel, const PyRows &rows, Vector<double> squared_norms,
                Vector<double> signed_weight, Vector<double> start, double squared_norm,
                int64_t steps_before, double lam, double rate_scale, double rate_offset,
                double rate_power, double bias_rate, double radius, int64_t batch,
                const std::string &sampling, int64_t window, int n_threads) {
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(signed_weight, n_rows(rows), "signed_weight");
  expect_size(start, n_rows(rows), "start");
  expect_rows(rows);
  expect_square(kernel, rows);
  expect_between(steps_before, 0, most_counted, "steps_before");
  expect_between(window, 0, most_counted, "window");
  room_for(batch, batch, "kernel values of a batch");
  if (batch < 1 || batch > n_rows(rows))
    throw std::invalid_argument("batch must be in 1.." + std::to_string(n_rows(rows)));
  const nb::gil_scoped_release release;
  return std::visit(
      [&](const auto &r) -> std::unique_ptr<KernelSgd> {
        using T = typename std::decay_t<decltype(r)>::Value;
        return std::make_unique<KernelSgdOn<T>>(
            make_source<T>(kernel, r, squared_norms.data()), signed_weight.data(), start.data(),
            squared_norm, steps_before, lam, PowerRate{rate_scale, rate_offset, rate_power},
            bias_rate, radius, batch, sampling_from_name(sampling), window, n_threads);
      },
      rows.view());
}

} // namespace

void bind_kernels(nb::module_ &kernels, nb::module_ &steps) {
  kernels.attr("kernel_names") = to_tuple(MercerKernels::names());
  nb::class_<Kernel>(kernels, "Kernel");
  kernels.def("kernel", &make_kernel, nb::arg("name"), nb::arg("gamma"), nb::arg("coef0"),
              nb::arg("degree"), nb::arg("constant"));
  kernels.def("expand_kernel", &expand_kernel, nb::arg("kernel"), nb::arg("rows"),
              nb::arg("squared_norms"), nb::arg("centres"), nb::arg("centre_norms"),
              nb::arg("coefficients"), nb::arg("out"), nb::arg("n_threads"),
              "out[i] = sum_c coefficients[c] K(x_i, c)");
  kernels.def("kernel_matrix", &fill_kernel_matrix, nb::arg("kernel"), nb::arg("rows"),
              nb::arg("squared_norms"), nb::arg("centres"), nb::arg("centre_norms"), nb::arg("out"),
              nb::arg("n_threads"), "out[i, c] = K(x_i, c)");
  nb::class_<SmoReport>(steps, "SmoReport")
      .def_ro("steps", &SmoReport::steps)
      .def_ro("violation", &SmoReport::violation)
      .def_ro("dual", &SmoReport::dual)
      .def_ro("gap", &SmoReport::gap)
      .def_ro("n_active", &SmoReport::n_active)
      .def_ro("curvature", &SmoReport::curvature)
      .def_ro("stuck", &SmoReport::stuck);
  nb::class_<Smo>(steps, "Smo")
      .def(
          "run",
          [](Smo &s, int64_t n_sets) {
            expect_steps(n_sets, "n_sets");
            const nb::gil_scoped_release release;
            return s.run(n_sets);
          },
          nb::arg("n_sets"))
      .def("coefficients",
           [](const Smo &s, MutableVector<double> out) {
             expect_size(out, s.n_rows(), "out");
             const nb::gil_scoped_release release;
             s.coefficients(out.data());
           })
      .def("unshrink", &Smo::unshrink, nb::call_guard<nb::gil_scoped_release>())
      .def("refresh",
           [](Smo &s, Vector<double> scores) {
             expect_size(scores, s.n_rows(), "scores");
             const nb::gil_scoped_release release;
             s.refresh(scores.data());
           })
      .def_prop_ro("cache_peak_bytes", &Smo::cache_peak_bytes);
  // Rows and squared norms are read in place: they must outlive the solver. noconvert: a converted
  // copy would be gone by the time it is read.
  steps.def("smo", &make_smo, nb::arg("kernel"), nb::arg("rows"),
            nb::arg("squared_norms").noconvert(), nb::arg("linear"), nb::arg("lower"),
            nb::arg("upper"), nb::arg("ridge").none(), nb::arg("tube"), nb::arg("free_bias"),
            nb::arg("coefficients"), nb::arg("scores"), nb::arg("set_size"), nb::arg("cache_bytes"),
            nb::arg("n_threads"), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
  nb::class_<KernelSgd>(steps, "KernelSgd")
      .def("run", &checked_run<KernelSgd>, nb::arg("n_steps"), nb::arg("rng"))
      .def("coefficients",
           [](const KernelSgd &k, MutableVector<double> out) {
             expect_size(out, k.n_rows(), "out");
             const nb::gil_scoped_release release;
             k.coefficients(out.data());
           })
      .def_prop_rw("bias", &KernelSgd::bias, &KernelSgd::set_bias);
  // Rows, squared norms and signed weights are read in place.
  steps.def("kernel_sgd", &make_kernel_sgd, nb::arg("kernel"), nb::arg("rows"),
            nb::arg("squared_norms").noconvert(), nb::arg("signed_weight").noconvert(),
            nb::arg("start"), nb::arg("squared_norm"), nb::arg("steps_before"), nb::arg("lam"),
            nb::arg("rate_scale"), nb::arg("rate_offset"), nb::arg("rate_power"),
            nb::arg("bias_rate"), nb::arg("radius"), nb::arg("batch"), nb::arg("sampling"),
            nb::arg("window"), nb::arg("n_threads"), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(),
            nb::keep_alive<0, 4>());
}

} // namespace bridle
