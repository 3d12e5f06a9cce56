#include "bindings.hpp"

#include "text/reader.hpp"
#include "text/writer.hpp"

#include <nanobind/stl/optional.h>

#include <optional>
#include <string_view>

namespace bridle {
namespace {

using svmlight::IndexBase;
using Parts = nb::typed<nb::tuple, nb::object, nb::ellipsis>;

// The array takes the memory over; nothing is copied.
template <class T> nb::object to_numpy(Buffer<T> buffer, int64_t size) {
  T *memory = buffer.release();
  const nb::capsule owner(memory, [](void *p) noexcept { std::free(p); });
  const auto shape = static_cast<size_t>(size);
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(memory, {shape}, owner));
}

template <class T>
Parts read_as(std::string_view text, const std::string &name,
              const svmlight::ReadOptions &options) {
  svmlight::Table<T> table;
  {
    const nb::gil_scoped_release release;
    table = svmlight::read<T>(text, name, options);
  }
  nb::object indptr = table.indptr64.data() ? to_numpy(std::move(table.indptr64), table.n_rows + 1)
                                            : to_numpy(std::move(table.indptr32), table.n_rows + 1);
  nb::object qids = options.want_qid ? to_numpy(std::move(table.qids), table.n_rows) : nb::none();
  return nb::make_tuple(to_numpy(std::move(table.values), table.n_nonzero),
                        to_numpy(std::move(table.indices), table.n_nonzero), indptr,
                        to_numpy(std::move(table.labels), table.n_rows), qids, table.n_features,
                        table.zero_based);
}

Parts read(Vector<uint8_t> text, const std::string &name, bool single_precision,
           std::optional<bool> zero_based, bool qid, std::optional<int64_t> n_features,
           int n_threads, size_t chunk_bytes, bool mapped) {
  svmlight::ReadOptions options;
  if (zero_based)
    options.base = *zero_based ? IndexBase::zero : IndexBase::one;
  options.want_qid = qid;
  if (n_features)
    expect_between(*n_features, 0, INT64_MAX - 1, "n_features");
  options.n_features = n_features.value_or(-1);
  options.n_threads = n_threads;
  options.chunk_bytes = std::min(chunk_bytes, text.shape(0) + 1); // more is one chunk
  options.text_is_mapped_file = mapped;
  const std::string_view view(reinterpret_cast<const char *>(text.data()), text.shape(0));
  return single_precision ? read_as<float>(view, name, options)
                          : read_as<double>(view, name, options);
}

template <class T, class Index>
nb::bytes format(Vector<Index> indptr, Vector<int32_t> indices, Vector<T> values,
                 Vector<double> labels, std::optional<Vector<int64_t>> qids, bool zero_based,
                 int64_t first_row, int64_t end_row) {
  const auto n_rows = static_cast<int64_t>(labels.shape(0));
  expect_size(indptr, n_rows + 1, "indptr");
  expect_size(indices, static_cast<int64_t>(values.shape(0)), "indices");
  if (qids)
    expect_size(*qids, n_rows, "qid");
  const Index *const p = indptr.data();
  if (first_row < 0 || first_row > end_row || end_row > n_rows)
    throw nb::value_error("the rows to format are not rows of the matrix");
  if (p[first_row] < 0 || p[end_row] > static_cast<int64_t>(values.shape(0)) ||
      !std::is_sorted(p + first_row, p + end_row + 1))
    throw nb::value_error("indptr is not a nondecreasing sequence within the stored entries");
  const svmlight::RowsToWrite<T, Index> rows{p + first_row,
                                             indices.data(),
                                             values.data(),
                                             labels.data() + first_row,
                                             qids ? qids->data() + first_row : nullptr,
                                             end_row - first_row,
                                             zero_based ? 0 : 1};
  std::string out;
  {
    const nb::gil_scoped_release release;
    out = svmlight::format(rows);
  }
  return nb::bytes(out.data(), out.size());
}

template <class T, class Index> void bind_format(nb::module_ &m) {
  m.def("format_svmlight", &format<T, Index>, nb::arg("indptr").noconvert(),
        nb::arg("indices").noconvert(), nb::arg("values").noconvert(),
        nb::arg("labels").noconvert(), nb::arg("qids").none(), nb::arg("zero_based"),
        nb::arg("first_row"), nb::arg("end_row"), "The rows first_row..end_row-1 as text.");
}

} // namespace

void bind_svmlight(nb::module_ &m) {
  nb::exception<svmlight::ParseError>(m, "SvmlightError", PyExc_ValueError);
  m.def("read_svmlight", &read, nb::arg("text"), nb::arg("name"), nb::arg("single_precision"),
        nb::arg("zero_based").none(), nb::arg("qid"), nb::arg("n_features").none(),
        nb::arg("n_threads"), nb::arg("chunk_bytes"), nb::arg("mapped"),
        "(values, indices, indptr, labels, qids or None, n_features, zero_based) of an svmlight "
        "text.");
  bind_format<float, int32_t>(m);
  bind_format<float, int64_t>(m);
  bind_format<double, int32_t>(m);
  bind_format<double, int64_t>(m);
}

} // namespace bridle
