#include "bindings.hpp"

#include "losses.hpp"
#include "pegasos.hpp"

#include <memory>

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

std::unique_ptr<Pegasos> make_pegasos(const PyRows &rows, const std::string &loss,
                                      Vector<double> signed_cost, Vector<double> squared_norms,
                                      Vector<double> start_w, Vector<double> start_alpha,
                                      int64_t steps_before, int64_t batch, double radius,
                                      const std::string &sampling, bool keep_random) {
  expect_size(signed_cost, n_rows(rows), "signed_cost");
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  expect_size(start_w, n_weights(rows), "start_w");
  expect_size(start_alpha, n_rows(rows), "start_alpha");
  if (batch < 1 || batch > n_rows(rows))
    throw std::invalid_argument("batch must be in 1.." + std::to_string(n_rows(rows)));
  return std::visit(
      [&](const auto &r, auto l) -> std::unique_ptr<Pegasos> {
        using On = PegasosOn<std::decay_t<decltype(r)>, decltype(l)>;
        return std::make_unique<On>(r, signed_cost.data(), squared_norms.data(), start_w.data(),
                                    start_alpha.data(), steps_before, batch, radius,
                                    sampling_from_name(sampling), keep_random);
      },
      rows.view, loss_from_name(loss));
}

} // namespace

void bind_pegasos(nb::module_ &m) {
  nb::class_<Pegasos>(m, "Pegasos")
      .def("run", &Pegasos::run, nb::arg("n_steps"), nb::arg("rng"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("restart_average", &Pegasos::restart_average)
      .def("output", [](const Pegasos &p, const std::string &which, MutableVector<double> w,
                        MutableVector<double> alpha) {
        p.output(output_from_name(which), w.data(), alpha.data());
      });
  // The kernel reads rows, costs and squared norms in place: they must outlive it.
  m.def("pegasos", &make_pegasos, nb::arg("rows"), nb::arg("loss"), nb::arg("signed_cost"),
        nb::arg("squared_norms"), nb::arg("start_w"), nb::arg("start_alpha"),
        nb::arg("steps_before"), nb::arg("batch"), nb::arg("radius"), nb::arg("sampling"),
        nb::arg("keep_random"), nb::keep_alive<0, 1>(), nb::keep_alive<0, 3>(),
        nb::keep_alive<0, 4>());
}

} // namespace bridle
