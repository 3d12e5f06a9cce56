#include "bindings.hpp"

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/places.hpp"

namespace bridle {

void bind_coordinate(nb::module_ &steps); // bindings/coordinate.cpp
void bind_compact(nb::module_ &compact);  // bindings/compact.cpp

namespace {

void bind_places(nb::module_ &m) {
  nb::class_<Places>(m, "Places",
                     "For threads of Python that work at the same time: as many as "
                     "they may have at work together, helpers of the core included.")
      .def(nb::init<int64_t>(), nb::arg("n"));
  nb::class_<Place>(m, "Place", "One of them, for the thread that enters it.")
      .def(nb::init<Places &>(), nb::arg("places"), nb::keep_alive<1, 2>())
      .def("__enter__", [](Place &place) { place.take(); })
      .def("__exit__", [](Place &place, nb::args) { place.leave(); });
}

} // namespace
} // namespace bridle

NB_MODULE(_core, m) {
  m.doc() = "The compiled core of bridle: passes and steps without policy.";
  m.attr("version") = BRIDLE_VERSION;
  m.def("hardware_threads", &bridle::hardware_threads);
  m.def("physical_memory", &bridle::physical_memory, "In bytes.");
  bridle::bind_places(m);
  bridle::bind_rng(m);

  auto sums = m.def_submodule("sums", "Sums whose rounding is known.");
  bridle::bind_sums(sums);

  // Rows before all that takes them.
  auto matrix = m.def_submodule("matrix", "Views of matrices, and the one check of their rows.");
  bridle::bind_matrix(matrix);
  bridle::bind_vectors(matrix);

  auto rows = m.def_submodule("rows", "Passes over rows, which know of no loss.");
  bridle::bind_rows(rows);

  auto compact = m.def_submodule("compact", "Rows of files in fewer bytes.");
  bridle::bind_compact(compact);

  auto steps = m.def_submodule("steps", "What solvers call: steps and epochs of every method.");
  auto kernels = m.def_submodule("kernels", "Mercer kernels, and passes with them.");
  bridle::bind_dcd(steps);
  bridle::bind_dcd_classes(steps);
  bridle::bind_sgd(steps);
  bridle::bind_sgd_qn(steps);
  bridle::bind_perceptrons(steps);
  bridle::bind_newton(steps);
  bridle::bind_coordinate(steps);
  bridle::bind_cutting_plane(steps);
  bridle::bind_simplex_qp(steps);
  bridle::bind_kernels(kernels, steps);

  auto text = m.def_submodule("text", "The svmlight format, and named features.");
  bridle::bind_svmlight(text);
  bridle::bind_features(text);

  auto structured =
      m.def_submodule("structured", "Inference: chains, trees, label sets, rankings.");
  bridle::bind_chain(structured);
  bridle::bind_cky(structured);
  bridle::bind_multilabel(structured);
  bridle::bind_ranking(structured);
}
