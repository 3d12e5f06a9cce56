// Views of matrices, and the one check of their rows.
#include "bindings.hpp"

#include "rows/passes.hpp"

namespace bridle {
namespace {

// A pass needs a vector of weights, and a step on them some more.
void expect_width(int64_t n_features, double bias) {
  if (n_features < 0)
    refuse("n_features must not be negative, got " + std::to_string(n_features));
  if (16 * static_cast<double>(n_features) > physical_memory())
    refuse("X has " + std::to_string(n_features) +
           " columns: their weights are more than this machine can hold; number or hash the "
           "features more densely");
  if (!std::isfinite(bias))
    refuse("the constant feature must be finite");
}

template <class Value, class Column>
PyRows csr(Vector<int64_t> offsets, Vector<Column> columns, Vector<Value> values,
           int64_t n_features, double bias, nb::object owner, int n_threads) {
  expect_width(n_features, bias);
  if (offsets.shape(0) == 0)
    throw nb::value_error("indptr is empty");
  const auto n = static_cast<int64_t>(offsets.shape(0)) - 1;
  const auto stored = static_cast<int64_t>(std::min(columns.shape(0), values.shape(0)));
  const int64_t *o = offsets.data();
  const bool sorted = [&] {
    const nb::gil_scoped_release release;
    std::atomic<bool> all{true};
    for_ranges(n, vector_grain, n_threads, [&](Range range) {
      if (!std::is_sorted(o + range.begin, o + range.end + 1))
        all = false;
    });
    return all.load();
  }();
  if (o[0] < 0 || o[n] > stored || !sorted)
    throw nb::value_error("indptr is not a nondecreasing sequence within the stored entries");
  return {CsrRows<Value, Column>{o, columns.data(), values.data(), n, n_features, bias},
          std::move(owner)};
}

template <class Value>
PyRows dense(nb::ndarray<const Value, nb::ndim<2>, nb::c_contig, nb::device::cpu> values,
             double bias, nb::object owner) {
  expect_width(static_cast<int64_t>(values.shape(1)), bias);
  return {DenseRows<Value>{values.data(), static_cast<int64_t>(values.shape(0)),
                           static_cast<int64_t>(values.shape(1)), bias},
          std::move(owner)};
}

template <class Value, class Column> void bind_csr(nb::module_ &m) {
  m.def("csr_rows", &csr<Value, Column>, nb::arg("offsets").noconvert(),
        nb::arg("columns").noconvert(), nb::arg("values").noconvert(), nb::arg("n_features"),
        nb::arg("bias"), nb::arg("owner"), nb::arg("n_threads") = 1);
}

template <class Value> void bind_dense(nb::module_ &m) {
  m.def("dense_rows", &dense<Value>, nb::arg("values").noconvert(), nb::arg("bias"),
        nb::arg("owner"));
}

bool scan_rows(const PyRows &rows, MutableVector<double> squared_norms, int n_threads) {
  expect_size(squared_norms, n_rows(rows), "squared_norms");
  const nb::gil_scoped_release release;
  const ScanResult found = std::visit(
      [&](const auto &r) { return scan(r, squared_norms.data(), n_threads); }, rows.unchecked());
  rows.know_columns(found.canonical);
  return found.canonical;
}

std::pair<int64_t, double> extremes(const PyRows &rows, Vector<double> squared_norms,
                                    int n_threads) {
  const int64_t n = n_rows(rows);
  expect_size(squared_norms, n, "squared_norms");
  const nb::gil_scoped_release release;
  std::vector<std::pair<int64_t, double>> parts((n + vector_grain - 1) / vector_grain, {0, 0.0});
  std::visit(
      [&](const auto &r) {
        for_ranges(n, vector_grain, n_threads, [&](Range range) {
          auto &[most, largest] = parts[range.begin / vector_grain];
          for (int64_t i = range.begin; i < range.end; ++i) {
            most = std::max(most, r.row_nnz(i));
            largest = std::max(largest, squared_norms.data()[i]);
          }
        });
      },
      rows.unchecked());
  std::pair<int64_t, double> all{0, 0.0};
  for (const auto &[most, largest] : parts)
    all = {std::max(all.first, most), std::max(all.second, largest)};
  return all;
}

} // namespace

void bind_matrix(nb::module_ &m) {
  nb::class_<PyRows>(m, "Rows", "The rows of a matrix, read in place.")
      .def_prop_ro("n_rows", &n_rows)
      .def_prop_ro("n_features", [](const PyRows &rows) { return n_weights(rows) - 1; })
      .def_prop_ro("nnz", [](const PyRows &rows) {
        return std::visit([](const auto &r) { return r.nnz(); }, rows.unchecked());
      });
  bind_csr<float, int32_t>(m);
  bind_csr<float, int64_t>(m);
  bind_csr<double, int32_t>(m);
  bind_csr<double, int64_t>(m);
  bind_dense<float>(m);
  bind_dense<double>(m);
  m.def("extremes", &extremes, nb::arg("rows"), nb::arg("squared_norms"), nb::arg("n_threads"),
        "How many entries the fullest row has, and the largest squared length.");
  m.def("scan", &scan_rows, nb::arg("rows"), nb::arg("squared_norms"), nb::arg("n_threads"),
        "Check every row and fill in its squared length; True if all columns are in order.");
}

} // namespace bridle
