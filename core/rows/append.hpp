// Rows copied behind others, into arrays that somebody else owns.
#pragma once

#include "rows/views.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>

namespace bridle {

// Copies the chosen rows to the end of arrays that hold `used` entries already; offsets receives
// the ends of the rows.
template <class Value, class Column>
void append_rows(const CsrRows<Value, Column> &rows, std::span<const int64_t> chosen, int64_t used,
                 int64_t *offsets, Column *columns, Value *values, int64_t capacity) {
  for (size_t k = 0; k < chosen.size(); ++k) {
    if (chosen[k] < 0 || chosen[k] >= rows.n_rows)
      throw std::invalid_argument("there is no such row to copy");
    const int64_t begin = rows.offsets[chosen[k]], size = rows.row_nnz(chosen[k]);
    if (size > capacity - used)
      throw std::invalid_argument("the copied rows do not fit");
    std::copy_n(rows.columns + begin, size, columns + used);
    std::copy_n(rows.values + begin, size, values + used);
    used += size;
    offsets[k] = used;
  }
}

} // namespace bridle
