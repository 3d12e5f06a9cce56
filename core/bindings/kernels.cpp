#include "bindings.hpp"

#include "kernel/sgd.hpp"
#include "kernel/panels.hpp"
#include "kernel/smo.hpp"

#include <memory>
#include <numeric>

namespace bridle {
namespace {

Kernel make_kernel(const std::string &name, double gamma, double coef0, int degree,
                   double constant) {
  if (degree < 0)
    throw std::invalid_argument("degree must not be negative");
  return {kernel_from_name(name), gamma, coef0, degree, constant};
}

int64_t n_features(const PyRows &rows) { return n_weights(rows) - 1; }

void expect_same_features(const PyRows &rows, const PyRows &centres) {
  if (n_features(rows) != n_features(centres))
    throw std::invalid_argument("the rows have " + std::to_string(n_features(rows)) +
                                " features, the centres " + std::to_string(n_features(centres)));
}

// out[i] = sum_c coefficients[c] K(x_i, c), in float64.
void expand_kernel(const Kernel &kernel, const PyRows &rows, Vector<double> squared_norms,
                   const PyRows &centres, Vector<double> centre_norms, Vector<double> coefficients,
                   MutableVector<double> out, int n_threads) {
  const bool precomputed = kernel.name == KernelName::precomputed;
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(out, n_rows(rows), "out");
  const int64_t n_centres = precomputed ? n_features(rows) : n_rows(centres);
  if (!precomputed)
    expect_same_features(rows, centres);
  expect_size(centre_norms, n_rows(centres), "centre_norms");
  expect_size(coefficients, n_centres, "coefficients");
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &r, const auto &c) {
        using Rows = std::decay_t<decltype(r)>;
        const auto source = make_source<double>(kernel, r, squared_norms.data());
        std::vector<int64_t> all(n_rows(rows));
        std::iota(all.begin(), all.end(), int64_t{0});
        expand(
            *source, std::span(coefficients.data(), n_centres), all,
            [&](std::span<const int64_t> chosen, Panels<double> &panels) {
              if (precomputed)
                source->pack(chosen, panels);
              else
                static_cast<const FormulaSource<double, Rows> &>(*source).pack_from(
                    c, centre_norms.data(), chosen, panels);
            },
            out.data(), n_threads);
      },
      rows.view, centres.view);
}

// out[i][c] = K(x_i, c), in float64.
void kernel_matrix(const Kernel &kernel, const PyRows &rows, Vector<double> squared_norms,
                   const PyRows &centres, Vector<double> centre_norms,
                   nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out,
                   int n_threads) {
  if (kernel.name == KernelName::precomputed)
    throw std::invalid_argument("a precomputed kernel is its own matrix");
  expect_same_features(rows, centres);
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(centre_norms, n_rows(centres), "centre_norms");
  const int64_t m = n_rows(rows), n = n_rows(centres);
  if (static_cast<int64_t>(out.shape(0)) != m || static_cast<int64_t>(out.shape(1)) != n)
    throw std::invalid_argument("out must be of shape rows x centres");
  double *values = out.data();
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &r, const auto &c) {
        using Rows = std::decay_t<decltype(r)>;
        const FormulaSource<double, Rows> source(kernel, r, squared_norms.data());
        std::vector<int64_t> chosen(n), all(m);
        std::iota(chosen.begin(), chosen.end(), int64_t{0});
        std::iota(all.begin(), all.end(), int64_t{0});
        for (int64_t from = 0; from < n; from += centres_at_once) {
          const int64_t count = std::min(centres_at_once, n - from);
          Panels<double> panels;
          source.pack_from(c, centre_norms.data(), std::span(chosen).subspan(from, count), panels);
          const int64_t n_blocks = (m + rows_at_once - 1) / rows_at_once;
          for_blocks(n_blocks, m * count > 100000 ? n_threads : 1, [&](int64_t block) {
            const auto [begin, end] = block_range(m, n_blocks, block);
            std::vector<double> buffer(count * (end - begin));
            std::vector<double *> targets(count);
            for (int64_t k = 0; k < count; ++k)
              targets[k] = buffer.data() + k * (end - begin);
            source.block(panels, std::span(all).subspan(begin, end - begin), targets.data());
            for (int64_t i = begin; i < end; ++i)
              for (int64_t k = 0; k < count; ++k)
                values[i * n + from + k] = targets[k][i - begin];
          });
        }
      },
      rows.view, centres.view);
}

std::unique_ptr<Smo> make_smo(const Kernel &kernel, const PyRows &rows,
                              Vector<double> squared_norms, Vector<double> signed_cost,
                              Vector<double> alpha, Vector<double> scores, bool free_bias,
                              int64_t set_size, int64_t cache_bytes, int n_threads) {
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(signed_cost, n_rows(rows), "signed_cost");
  expect_size(alpha, n_rows(rows), "alpha");
  expect_size(scores, n_rows(rows), "scores");
  if (kernel.name == KernelName::precomputed && n_features(rows) != n_rows(rows))
    throw std::invalid_argument("a precomputed kernel must be square");
  return std::visit(
      [&](const auto &r) -> std::unique_ptr<Smo> {
        using T = typename std::decay_t<decltype(r)>::Value;
        if (cache_bytes < 2 * n_rows(rows) * static_cast<int64_t>(sizeof(T)))
          throw std::invalid_argument("the cache must hold two kernel rows");
        return std::make_unique<SmoOn<T>>(make_source<T>(kernel, r, squared_norms.data()),
                                          signed_cost.data(), alpha.data(), scores.data(),
                                          free_bias, set_size, cache_bytes, n_threads);
      },
      rows.view);
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
  if (kernel.name == KernelName::precomputed && n_features(rows) != n_rows(rows))
    throw std::invalid_argument("a precomputed kernel must be square");
  if (batch < 1 || batch > n_rows(rows))
    throw std::invalid_argument("batch must be in 1.." + std::to_string(n_rows(rows)));
  return std::visit(
      [&](const auto &r) -> std::unique_ptr<KernelSgd> {
        using T = typename std::decay_t<decltype(r)>::Value;
        return std::make_unique<KernelSgdOn<T>>(
            make_source<T>(kernel, r, squared_norms.data()), signed_weight.data(), start.data(),
            squared_norm, steps_before, lam, PowerRate{rate_scale, rate_offset, rate_power},
            bias_rate, radius, batch, sampling_from_name(sampling), window, n_threads);
      },
      rows.view);
}

} // namespace

void bind_kernels(nb::module_ &m) {
  nb::class_<Kernel>(m, "Kernel").def_ro("gamma", &Kernel::gamma);
  m.def("kernel", &make_kernel, nb::arg("name"), nb::arg("gamma"), nb::arg("coef0"),
        nb::arg("degree"), nb::arg("constant"));
  m.def("expand_kernel", &expand_kernel, nb::arg("kernel"), nb::arg("rows"),
        nb::arg("squared_norms"), nb::arg("centres"), nb::arg("centre_norms"),
        nb::arg("coefficients"), nb::arg("out"), nb::arg("n_threads"),
        "out[i] = sum_c coefficients[c] K(x_i, c)");
  m.def("kernel_matrix", &kernel_matrix, nb::arg("kernel"), nb::arg("rows"),
        nb::arg("squared_norms"), nb::arg("centres"), nb::arg("centre_norms"), nb::arg("out"),
        nb::arg("n_threads"), "out[i, c] = K(x_i, c)");
  nb::class_<SmoReport>(m, "SmoReport")
      .def_ro("steps", &SmoReport::steps)
      .def_ro("violation", &SmoReport::violation)
      .def_ro("dual", &SmoReport::dual)
      .def_ro("gap", &SmoReport::gap)
      .def_ro("n_active", &SmoReport::n_active)
      .def_ro("curvature", &SmoReport::curvature)
      .def_ro("stuck", &SmoReport::stuck);
  nb::class_<Smo>(m, "Smo")
      .def("run", &Smo::run, nb::arg("n_sets"), nb::call_guard<nb::gil_scoped_release>())
      .def("alpha", [](const Smo &s, MutableVector<double> out) { s.alpha(out.data()); })
      .def("unshrink", &Smo::unshrink, nb::call_guard<nb::gil_scoped_release>())
      .def("refresh", [](Smo &s, Vector<double> scores) { s.refresh(scores.data()); })
      .def_prop_ro("cache_peak_bytes", &Smo::cache_peak_bytes);
  // Rows and squared norms are read in place: they must outlive the solver.
  m.def("smo", &make_smo, nb::arg("kernel"), nb::arg("rows"), nb::arg("squared_norms"),
        nb::arg("signed_cost"), nb::arg("alpha"), nb::arg("scores"), nb::arg("free_bias"),
        nb::arg("set_size"), nb::arg("cache_bytes"), nb::arg("n_threads"), nb::keep_alive<0, 2>(),
        nb::keep_alive<0, 3>());
  nb::class_<KernelSgd>(m, "KernelSgd")
      .def("run", &KernelSgd::run, nb::arg("n_steps"), nb::arg("rng"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("coefficients",
           [](const KernelSgd &k, MutableVector<double> out) { k.coefficients(out.data()); })
      .def_prop_ro("bias", &KernelSgd::bias);
  // Rows, squared norms and signed weights are read in place.
  m.def("kernel_sgd", &make_kernel_sgd, nb::arg("kernel"), nb::arg("rows"),
        nb::arg("squared_norms"), nb::arg("signed_weight"), nb::arg("start"),
        nb::arg("squared_norm"), nb::arg("steps_before"), nb::arg("lam"), nb::arg("rate_scale"),
        nb::arg("rate_offset"), nb::arg("rate_power"), nb::arg("bias_rate"), nb::arg("radius"),
        nb::arg("batch"), nb::arg("sampling"), nb::arg("window"), nb::arg("n_threads"),
        nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(), nb::keep_alive<0, 4>());
}

} // namespace bridle
