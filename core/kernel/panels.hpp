// Kernel values K(c, x) for many pairs at once. Centres are packed sixteen to a panel, feature by
// feature, so that one row against a panel is sixteen inner products with no horizontal sum: the
// row's values are broadcast, dense and sparse alike, as in a matrix product.
#pragma once

#include "base/cpu.hpp"
#include "kernel/mercer.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace bridle {

// Up to any number of centres, ready to be multiplied by rows. For sparse rows only the columns
// that some centre uses have a slot.
template <class T> struct Panels {
  int64_t n_centres = 0, n_slots = 0;
  std::vector<T> packed;        // [panel][slot][16]
  std::vector<T> squared_norms; // padded to whole panels
  std::vector<int32_t> slots;   // slot of each column, or -1; empty: slot = column
  std::vector<int64_t> rows;    // which rows the centres are, for precomputed values

  int64_t n_panels() const { return (n_centres + panel_width - 1) / panel_width; }
  const T *panel(int64_t p) const { return packed.data() + p * n_slots * panel_width; }
};

// Turns sixteen inner products into kernel values.
template <class T>
[[gnu::always_inline]] inline void finish_panel(const Formula &formula, T constant, T row_norm,
                                                const T *centre_norms, T *values) {
  apply(formula, row_norm, centre_norms, values);
  for (int k = 0; k < panel_width; ++k)
    values[k] += constant;
}

template <class T, int lanes = 64 / sizeof(T)> struct PanelLanes {
  // Unaligned on purpose: panels and rows start anywhere.
  typedef T Vector __attribute__((vector_size(64), aligned(alignof(T)), may_alias));
  static constexpr int count = panel_width / lanes; // vectors in a panel
};

// values[r][k] = x_{rows[r]} . c_k for four dense rows.
template <class T, class Value>
[[gnu::always_inline]] inline void panel_dots(const DenseRows<Value> &rows, const int64_t *which,
                                              const Panels<T> &, const T *panel,
                                              T (*values)[panel_width]) {
  using L = PanelLanes<T>;
  using V = typename L::Vector;
  V sum[4][L::count] = {};
  const Value *x0 = rows.row(which[0]), *x1 = rows.row(which[1]);
  const Value *x2 = rows.row(which[2]), *x3 = rows.row(which[3]);
  for (int64_t k = 0; k < rows.n_features; ++k, panel += panel_width)
    for (int v = 0; v < L::count; ++v) {
      const V c = reinterpret_cast<const V *>(panel)[v];
      sum[0][v] += static_cast<T>(x0[k]) * c;
      sum[1][v] += static_cast<T>(x1[k]) * c;
      sum[2][v] += static_cast<T>(x2[k]) * c;
      sum[3][v] += static_cast<T>(x3[k]) * c;
    }
  std::memcpy(values, sum, sizeof(sum));
}

// The same for sparse rows: only columns with a slot count.
template <class T, class Value, class Column>
[[gnu::always_inline]] inline void panel_dots(const CsrRows<Value, Column> &rows,
                                              const int64_t *which, const Panels<T> &panels,
                                              const T *panel, T (*values)[panel_width]) {
  using L = PanelLanes<T>;
  using V = typename L::Vector;
  for (int r = 0; r < 4; ++r) {
    V sum[L::count] = {};
    const int64_t end = rows.offsets[which[r] + 1];
    for (int64_t k = rows.offsets[which[r]]; k < end; ++k) {
      const int32_t slot = panels.slots[rows.columns[k]];
      if (slot < 0)
        continue;
      const T x = static_cast<T>(rows.values[k]);
      const V *c = reinterpret_cast<const V *>(panel + slot * panel_width);
      for (int v = 0; v < L::count; ++v)
        sum[v] += x * c[v];
    }
    std::memcpy(values[r], sum, sizeof(sum));
  }
}

// values[r][k] = K(x_{which[r]}, c_k) for four rows and one panel.
template <class T, RowsLike Rows>
[[gnu::always_inline]] inline void
panel_values(const Formula &formula, double constant, const Rows &rows, const double *squared_norms,
             const int64_t *which, const Panels<T> &panels, int64_t p, T (*values)[panel_width]) {
  panel_dots(rows, which, panels, panels.panel(p), values);
  for (int r = 0; r < 4; ++r)
    finish_panel(formula, static_cast<T>(constant), static_cast<T>(squared_norms[which[r]]),
                 panels.squared_norms.data() + p * panel_width, values[r]);
}

// out[c][i - begin] = K(x_{which[i]}, c) for i in begin..end-1 and every centre c.
template <class T, RowsLike Rows>
BRIDLE_WIDEST void kernel_block(const Formula &formula, double constant, const Rows &rows,
                                const double *squared_norms, const int64_t *which, int64_t n,
                                const Panels<T> &panels, T *const *out) {
  T values[panel_width][panel_width];
  for (int64_t p = 0; p < panels.n_panels(); ++p) {
    const int64_t used = std::min(panel_width, panels.n_centres - p * panel_width);
    for (int64_t i = 0; i < n; i += panel_width) {
      const int64_t n_here = std::min(panel_width, n - i);
      for (int64_t r = 0; r < n_here; r += 4) {
        // The last rows may be fewer than four: the first of them stands in for the missing.
        int64_t four[4];
        for (int k = 0; k < 4; ++k)
          four[k] = which[i + (r + k < n_here ? r + k : r)];
        panel_values(formula, constant, rows, squared_norms, four, panels, p, values + r);
      }
      for (int64_t c = 0; c < used; ++c)
        for (int64_t r = 0; r < n_here; ++r)
          out[p * panel_width + c][i + r] = values[r][c];
    }
  }
}

// sums[i] += sum_c coefficients[c] K(x_{which[i]}, c), sums in float64. Coefficients are padded
// with zeros to whole panels.
template <class T, RowsLike Rows>
BRIDLE_WIDEST void kernel_sums(const Formula &formula, double constant, const Rows &rows,
                               const double *squared_norms, const int64_t *which, int64_t n,
                               const Panels<T> &panels, const double *coefficients, double *sums) {
  T values[4][panel_width];
  for (int64_t p = 0; p < panels.n_panels(); ++p) {
    const double *a = coefficients + p * panel_width;
    for (int64_t i = 0; i < n; i += 4) {
      int64_t four[4];
      for (int k = 0; k < 4; ++k)
        four[k] = which[i + k < n ? i + k : i];
      panel_values(formula, constant, rows, squared_norms, four, panels, p, values);
      for (int r = 0; r < 4 && i + r < n; ++r) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int k = 0; k < panel_width; ++k)
          sum += a[k] * static_cast<double>(values[r][k]);
        sums[i + r] += sum;
      }
    }
  }
}

} // namespace bridle
