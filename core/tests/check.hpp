// What the tests of the library share: a check that says where it failed, and a small problem.
#pragma once

#include "base/rng.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <vector>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::cerr << __FILE__ << ':' << __LINE__ << ": " << #condition << '\n';                      \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

namespace bridle {

inline bool close(double a, double b, double tolerance = 1e-9) {
  return std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

// Random sparse rows, labels by a random plane, and the same rows without gaps.
struct Sample {
  int64_t n_rows, n_features;
  std::vector<int64_t> offsets{0};
  std::vector<int32_t> columns;
  std::vector<float> values;
  std::vector<double> dense, y, squared_norms;

  Sample(int64_t rows, int64_t features, uint64_t seed)
      : n_rows(rows), n_features(features), dense(rows * features) {
    Rng rng(seed);
    std::vector<double> plane(features);
    for (double &p : plane)
      p = rng.uniform() - 0.5;
    for (int64_t i = 0; i < rows; ++i) {
      double score = 0, squared_norm = 0;
      for (int64_t j = 0; j < features; ++j) {
        if (rng.uniform() > 0.3)
          continue;
        const auto x = static_cast<float>(rng.uniform() - 0.5);
        columns.push_back(static_cast<int32_t>(j));
        values.push_back(x);
        dense[i * features + j] = x;
        score += x * plane[j];
        squared_norm += static_cast<double>(x) * x;
      }
      offsets.push_back(static_cast<int64_t>(columns.size()));
      y.push_back(score + 0.1 * (rng.uniform() - 0.5) > 0 ? 1.0 : -1.0);
      squared_norms.push_back(squared_norm);
    }
  }

  CsrRows<float, int32_t> csr(double bias = 0) const {
    return {offsets.data(), columns.data(), values.data(), n_rows, n_features, bias};
  }
  DenseRows<double> full(double bias = 0) const { return {dense.data(), n_rows, n_features, bias}; }
};

} // namespace bridle
