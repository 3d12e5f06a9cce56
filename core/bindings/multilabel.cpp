#include "bindings.hpp"

#include "structured/multilabel.hpp"

namespace bridle {
namespace {

template <class T> using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void label_sets(const Matrix<const double> &scores, const Matrix<const double> &pairs,
                const Matrix<uint8_t> &sets, MutableVector<double> values, int n_threads) {
  const auto n_rows = static_cast<int64_t>(scores.shape(0));
  const auto n = static_cast<int64_t>(scores.shape(1));
  expect_size(pairs, n, "pairs");
  expect_size(sets, n_rows, "sets");
  expect_size(values, n_rows, "values");
  if (static_cast<int64_t>(pairs.shape(1)) != n || static_cast<int64_t>(sets.shape(1)) != n)
    throw nb::value_error("pairs and sets need a column for each label");
  // A bound that is no number ends no branch; and every label may double the time.
  expect_finite(scores, "scores");
  expect_finite(pairs, "pairs");
  expect_between(n, 0, 32, "labels");
  const nb::gil_scoped_release release;
  best_label_sets(scores.data(), pairs.data(), n_rows, n, sets.data(), values.data(), n_threads);
}

} // namespace

void bind_multilabel(nb::module_ &m) {
  m.def("label_sets", &label_sets, nb::arg("scores"), nb::arg("pairs"), nb::arg("sets"),
        nb::arg("values"), nb::arg("n_threads"),
        "The best set of labels for every row of scores, given what pairs of labels add.");
}

} // namespace bridle
