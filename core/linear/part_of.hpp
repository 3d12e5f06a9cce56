// Rows that come in parts: steps go from one to the next.
#pragma once

#include "rows/views.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <variant>

namespace bridle {

// The part as rows of the kind that the steps began with; it begins with row `first` of n_rows.
template <RowsLike Rows>
const Rows &part_of(const Rows &like, const AnyRows &part, int64_t first = 0,
                    int64_t n_rows = std::numeric_limits<int64_t>::max()) {
  const Rows *rows = std::get_if<Rows>(&part);
  if (!rows || rows->n_features != like.n_features || rows->n_rows < 1 || first < 0 ||
      rows->n_rows > n_rows - first)
    throw std::invalid_argument("these rows are no part of the data that the steps began with");
  return *rows;
}

} // namespace bridle
