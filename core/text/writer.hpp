// Rows as svmlight text.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>

namespace bridle::svmlight {

// Rows in CSR form, as text.
template <class T, class Index> struct RowsToWrite {
  const Index *indptr = nullptr; // of the first row; offsets into indices and values
  const std::int32_t *indices = nullptr;
  const T *values = nullptr;
  const double *labels = nullptr;
  const std::int64_t *qids = nullptr; // or null
  std::int64_t n_rows = 0;
  int first_index = 1; // 0 or 1
};

namespace detail {
template <class Number> void append_number(std::string &out, Number number) {
  std::array<char, 40> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), result.ptr);
}
} // namespace detail

// The shortest decimals that read back as the same numbers.
template <class T, class Index> std::string format(const RowsToWrite<T, Index> &rows) {
  std::string out;
  for (std::int64_t r = 0; r < rows.n_rows; ++r) {
    detail::append_number(out, rows.labels[r]);
    if (rows.qids) {
      out += " qid:";
      detail::append_number(out, rows.qids[r]);
    }
    for (Index k = rows.indptr[r]; k < rows.indptr[r + 1]; ++k) {
      out += ' ';
      detail::append_number(out, std::int64_t{rows.indices[k]} + rows.first_index);
      out += ':';
      detail::append_number(out, rows.values[k]);
    }
    out += '\n';
  }
  return out;
}

} // namespace bridle::svmlight
