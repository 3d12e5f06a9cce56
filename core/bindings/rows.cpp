#include "bindings.hpp"

#include "base/parallel.hpp"
#include "rows/passes.hpp"
#include "base/rng.hpp"

#include <numeric>

namespace bridle {
namespace {

template <class Value, class Column>
PyRows csr(Vector<int64_t> offsets, Vector<Column> columns, Vector<Value> values,
           int64_t n_features, double bias, nb::object owner) {
  if (offsets.shape(0) == 0)
    throw nb::value_error("indptr is empty");
  const auto n = static_cast<int64_t>(offsets.shape(0)) - 1;
  const auto stored = static_cast<int64_t>(std::min(columns.shape(0), values.shape(0)));
  const int64_t *o = offsets.data();
  if (o[0] < 0 || o[n] > stored || !std::is_sorted(o, o + n + 1))
    throw nb::value_error("indptr is not a nondecreasing sequence within the stored entries");
  return {CsrRows<Value, Column>{o, columns.data(), values.data(), n, n_features, bias},
          std::move(owner)};
}

template <class Value>
PyRows dense(nb::ndarray<const Value, nb::ndim<2>, nb::c_contig, nb::device::cpu> values,
             double bias, nb::object owner) {
  return {DenseRows<Value>{values.data(), static_cast<int64_t>(values.shape(0)),
                           static_cast<int64_t>(values.shape(1)), bias},
          std::move(owner)};
}

template <class Value, class Column> void bind_csr(nb::module_ &m) {
  m.def("csr_rows", &csr<Value, Column>, nb::arg("offsets").noconvert(),
        nb::arg("columns").noconvert(), nb::arg("values").noconvert(), nb::arg("n_features"),
        nb::arg("bias"), nb::arg("owner"));
}

template <class Value> void bind_dense(nb::module_ &m) {
  m.def("dense_rows", &dense<Value>, nb::arg("values").noconvert(), nb::arg("bias"),
        nb::arg("owner"));
}

bool scan_rows(const PyRows &rows, MutableVector<double> squared_norms, int n_threads) {
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  const nb::gil_scoped_release release;
  return std::visit([&](const auto &r) { return scan(r, squared_norms.data(), n_threads); },
                    rows.view)
      .canonical;
}

void score_rows(const PyRows &rows, Vector<double> w, MutableVector<double> out, int n_threads) {
  expect_size(w, n_weights(rows), "w");
  expect_size(out, n_rows(rows), "out");
  const nb::gil_scoped_release release;
  std::visit([&](const auto &r) { scores(r, w.data(), out.data(), n_threads); }, rows.view);
}

void combine_rows(const PyRows &rows, Vector<double> coefficients, MutableVector<double> out,
                  int n_threads) {
  expect_size(coefficients, n_rows(rows), "coefficients");
  expect_size(out, n_weights(rows), "out");
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &r) {
        combine(r, coefficients.data(), out.data(), nullptr, nullptr, n_threads);
      },
      rows.view);
}

void combine_and_score_rows(const PyRows &rows, Vector<double> coefficients,
                            MutableVector<double> out, Vector<double> w,
                            MutableVector<double> scores, int n_threads) {
  expect_size(coefficients, n_rows(rows), "coefficients");
  expect_size(out, n_weights(rows), "out");
  expect_size(w, n_weights(rows), "w");
  expect_size(scores, n_rows(rows), "scores");
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &r) {
        combine(r, coefficients.data(), out.data(), w.data(), scores.data(), n_threads);
      },
      rows.view);
}

void fill_permutation(Rng &rng, MutableVector<int64_t> out) {
  std::iota(out.data(), out.data() + out.shape(0), int64_t{0});
  rng.shuffle(std::span(out.data(), out.shape(0)));
}

} // namespace

void bind_rows(nb::module_ &m) {
  nb::class_<PyRows>(m, "Rows", "The rows of a matrix, read in place.")
      .def_prop_ro("n_rows", &n_rows)
      .def_prop_ro("n_features", [](const PyRows &rows) { return n_weights(rows) - 1; })
      .def_prop_ro("nnz", [](const PyRows &rows) {
        return std::visit([](const auto &r) { return r.nnz(); }, rows.view);
      });
  bind_csr<float, int32_t>(m);
  bind_csr<float, int64_t>(m);
  bind_csr<double, int32_t>(m);
  bind_csr<double, int64_t>(m);
  bind_dense<float>(m);
  bind_dense<double>(m);
  m.def("scan", &scan_rows, nb::arg("rows"), nb::arg("squared_norms"), nb::arg("n_threads"),
        "Check every row and fill in its squared length; True if all columns are in order.");
  m.def("scores", &score_rows, nb::arg("rows"), nb::arg("w"), nb::arg("out"), nb::arg("n_threads"),
        "out[i] = w . x_i");
  m.def("combine", &combine_rows, nb::arg("rows"), nb::arg("coefficients"), nb::arg("out"),
        nb::arg("n_threads"), "out = sum_i coefficients[i] x_i");
  m.def("combine_and_score", &combine_and_score_rows, nb::arg("rows"), nb::arg("coefficients"),
        nb::arg("out"), nb::arg("w"), nb::arg("scores"), nb::arg("n_threads"),
        "Both of the above in one pass over the rows.");
  m.def("hardware_threads", &hardware_threads);
  nb::class_<Rng>(m, "Rng", "xoshiro256++, the same on every platform.")
      .def(nb::init<uint64_t>(), nb::arg("seed"))
      .def("next", &Rng::next)
      .def("below", &Rng::below, nb::arg("n"))
      .def("uniform", &Rng::uniform)
      .def("permutation", &fill_permutation, nb::arg("out"), "Fill out with a permutation.");
}

} // namespace bridle
