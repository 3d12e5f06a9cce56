// How much rows have in common, and in which features: from some of them.
#pragma once

#include "base/parallel.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bridle {

// Neighbours together, since they are visited together, and may be more alike than others. An
// eighth of the rows at most, but for those that are very few.
struct RowSample {
  static constexpr int64_t together = 32, groups = 16;

  int64_t n_rows;

  int64_t size() const {
    return std::min(n_rows, std::clamp(n_rows / 8, together, together * groups));
  }
  int64_t row(int64_t k) const {
    const int64_t group = k / together, n_groups = (size() + together - 1) / together;
    return (n_rows - size()) * group / std::max<int64_t>(1, n_groups - 1) + k;
  }
};

// What rows do to each other's scores, as a part of what they do to their own: the largest
// eigenvalue of the sample's Gram matrix over its trace, by the power method. 1/n for n rows that
// have nothing in common, 1 for rows that are all alike. The constant feature has no part in it.
template <RowsLike Rows> double overlap(Rows rows) {
  rows.bias = 0;
  const RowSample sample{rows.n_rows};
  std::vector<double> direction(rows.n_features + 1, 0.0), image(sample.size(), 1.0);
  double trace = 0, largest = 0;
  for (int64_t k = 0; k < sample.size(); ++k)
    rows.for_each(sample.row(k), [&](int64_t, auto x) { trace += static_cast<double>(x) * x; });
  for (int step = 0; step < 4; ++step) {
    std::fill(direction.begin(), direction.end(), 0.0);
    for (int64_t k = 0; k < sample.size(); ++k)
      rows.add(sample.row(k), image[k], direction.data());
    double before = 0, after = 0;
    for (int64_t k = 0; k < sample.size(); ++k) {
      before += image[k] * image[k];
      image[k] = rows.dot(sample.row(k), direction.data());
      after += image[k] * image[k];
    }
    largest = before > 0 ? std::sqrt(after / before) : 0;
    const double scale = after > 0 ? 1 / std::sqrt(after) : 0;
    for (double &x : image)
      x *= scale;
  }
  return trace > 0 ? largest / trace : 1.0;
}

// Bounds of ranges of features that have about as many entries each: 0, ..., n_features.
template <RowsLike Rows> std::vector<int64_t> even_features(const Rows &rows, int64_t n_ranges) {
  const RowSample sample{rows.n_rows};
  const int64_t width = rows.n_features / 4096 + 1; // of the bins that are counted in
  std::vector<int64_t> count(rows.n_features / width + 1, 0), bounds{0};
  int64_t all = 0, so_far = 0;
  for (int64_t k = 0; k < sample.size(); ++k)
    rows.for_each(sample.row(k), [&](int64_t column, auto) {
      ++count[column / width];
      ++all;
    });
  for (int64_t bin = 0; bin < std::ssize(count); ++bin) {
    so_far += count[bin];
    while (std::ssize(bounds) < n_ranges && so_far * n_ranges > all * std::ssize(bounds))
      bounds.push_back(std::min((bin + 1) * width, rows.n_features));
  }
  bounds.resize(n_ranges + 1, rows.n_features);
  bounds.back() = rows.n_features;
  return bounds;
}

} // namespace bridle
