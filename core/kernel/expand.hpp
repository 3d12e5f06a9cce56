// Passes with a kernel: sums of kernel values, and matrices of them. The same for any number of
// threads.
#pragma once

#include "base/function_ref.hpp"
#include "base/parallel.hpp"
#include "kernel/source.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace bridle {

// How many centres are packed at once, and how many rows a thread takes at a time.
constexpr int64_t centres_at_once = 64, rows_at_once = 512;

// A thread costs some tens of microseconds to start.
inline int threads_for(int64_t n_values, int n_threads) {
  return n_values > 300000 ? n_threads : 1;
}

// Makes the centres of these numbers.
template <class T> using Pack = FunctionRef<void(std::span<const int64_t>, Panels<T> &)>;

// sums[k] = sum_c coefficients[c] K(x_which[k], c); only centres whose coefficients are not zero
// are packed.
template <class T>
void expand(const KernelSource<T> &source, std::span<const double> coefficients,
            std::span<const int64_t> which, Pack<T> pack, double *sums, int n_threads) {
  std::vector<int64_t> used;
  for (size_t c = 0; c < coefficients.size(); ++c)
    if (coefficients[c] != 0)
      used.push_back(static_cast<int64_t>(c));
  const auto n_rows = static_cast<int64_t>(which.size());
  std::fill_n(sums, n_rows, 0.0);
  // Panels for a few megabytes of centres at a time, then all rows, by blocks.
  constexpr int64_t batch = 16 * centres_at_once;
  for (int64_t begin = 0; begin < static_cast<int64_t>(used.size()); begin += batch) {
    const int64_t end = std::min<int64_t>(begin + batch, used.size());
    const int64_t n_groups = (end - begin + centres_at_once - 1) / centres_at_once;
    std::vector<Panels<T>> groups(n_groups);
    std::vector<std::vector<double>> weights(n_groups);
    for (int64_t g = 0; g < n_groups; ++g) {
      const int64_t from = begin + g * centres_at_once;
      const int64_t to = std::min(from + centres_at_once, end);
      const std::span<const int64_t> chosen(used.data() + from, to - from);
      pack(chosen, groups[g]);
      weights[g].assign(groups[g].n_padded() * panel_width, 0.0);
      for (int64_t k = 0; k < to - from; ++k)
        weights[g][k] = coefficients[chosen[k]];
    }
    const int64_t n_blocks = (n_rows + rows_at_once - 1) / rows_at_once;
    for_blocks(n_blocks, threads_for(n_rows * (end - begin), n_threads), [&](int64_t block) {
      const auto [first, last] = block_range(n_rows, n_blocks, block);
      for (int64_t g = 0; g < n_groups; ++g)
        source.sums(groups[g], which.subspan(first, last - first), weights[g].data(), sums + first);
    });
  }
}

// values[i][c] = K(x_i, c) for every row and each of n centres.
template <class T>
void kernel_matrix(const KernelSource<T> &source, int64_t n, Pack<T> pack, T *values,
                   int n_threads) {
  const int64_t m = source.n_rows();
  std::vector<int64_t> all_centres(n), all_rows(m);
  std::iota(all_centres.begin(), all_centres.end(), int64_t{0});
  std::iota(all_rows.begin(), all_rows.end(), int64_t{0});
  for (int64_t from = 0; from < n; from += centres_at_once) {
    const int64_t count = std::min(centres_at_once, n - from);
    Panels<T> panels;
    pack(std::span(all_centres).subspan(from, count), panels);
    const int64_t n_blocks = (m + rows_at_once - 1) / rows_at_once;
    for_blocks(n_blocks, threads_for(m * count, n_threads), [&](int64_t block) {
      const auto [begin, end] = block_range(m, n_blocks, block);
      std::vector<T> buffer(count * (end - begin));
      std::vector<T *> targets(count);
      for (int64_t k = 0; k < count; ++k)
        targets[k] = buffer.data() + k * (end - begin);
      source.block(panels, std::span(all_rows).subspan(begin, end - begin), targets.data());
      for (int64_t i = begin; i < end; ++i)
        for (int64_t k = 0; k < count; ++k)
          values[i * n + from + k] = targets[k][i - begin];
    });
  }
}

} // namespace bridle
