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
  bool for_sparse = false;      // then there is room for whole groups of panels

  static constexpr int64_t group = 4;
  int64_t n_panels() const { return (n_centres + panel_width - 1) / panel_width; }
  int64_t n_padded() const {
    return for_sparse ? (n_panels() + group - 1) / group * group : n_panels();
  }
  const T *panel(int64_t p) const { return packed.data() + p * n_slots * panel_width; }
};

// Turns sixteen inner products into kernel values.
template <int bytes, class T>
[[gnu::always_inline]] inline void finish_with(const Formula &formula, T constant, T row_norm,
                                               const T *centre_norms, T *values) {
  apply<bytes>(formula, row_norm, centre_norms, values);
  for (int k = 0; k < panel_width; ++k)
    values[k] += constant;
}

// The same for each level of processors, see cpu.hpp. Not inline: a call is little beside sixteen
// values, and every pass over every kind of rows would have copies of all formulas.
template <class T>
[[gnu::noinline]] void finish_any(const Formula &formula, T constant, T row_norm,
                                  const T *centre_norms, T *values) {
  finish_with<16>(formula, constant, row_norm, centre_norms, values);
}
template <class T>
[[gnu::noinline]] BRIDLE_V3 void finish_v3(const Formula &formula, T constant, T row_norm,
                                           const T *centre_norms, T *values) {
  finish_with<32>(formula, constant, row_norm, centre_norms, values);
}
template <class T>
[[gnu::noinline]] BRIDLE_V4 void finish_v4(const Formula &formula, T constant, T row_norm,
                                           const T *centre_norms, T *values) {
  finish_with<64>(formula, constant, row_norm, centre_norms, values);
}
template <int bytes, class T>
constexpr auto *finish_panel = bytes == 64   ? finish_v4<T>
                               : bytes == 32 ? finish_v3<T>
                                             : finish_any<T>;

// The rows x_which[i] against the centres, and what makes kernel values of their products.
template <class T, RowsLike Rows> struct PanelWork {
  const Formula &formula;
  T constant;
  const Rows &rows;
  const double *squared_norms;
  const int64_t *which;
  int64_t n;
  const Panels<T> &panels;
};

// Vectors of so many bytes, no more of them than stay in registers. (Of vectors wider than the
// machine's, or of too many, compilers keep the sums in memory: that takes ten times as long.)
template <class T, int bytes> struct Registers {
  typedef T Vector __attribute__((vector_size(bytes)));
  static constexpr int lanes = bytes / static_cast<int>(sizeof(T)), most = 8;
  static constexpr int in_panel = panel_width / lanes;

  [[gnu::always_inline]] static void load(Vector &to, const T *from) {
    std::memcpy(&to, from, bytes);
  }
};

// Inner products of some rows and the centres of some panels: values[r][q][k] = x_r . c_{q, k}.
// Of dense rows several against one panel.
template <int bytes, class T, RowsLike Rows> struct Tile {
  using R = Registers<T, bytes>;
  static constexpr int vectors = R::in_panel < 2 ? R::in_panel : 2;
  static constexpr int n_rows = R::most / vectors, n_panels = 1;

  [[gnu::always_inline]] static void dots(const PanelWork<T, Rows> &work, const int64_t *which,
                                          int64_t p, T (*values)[n_panels][panel_width]) {
    const typename Rows::Value *x[n_rows];
    for (int r = 0; r < n_rows; ++r)
      x[r] = work.rows.row(which[r]);
    for (int first = 0; first < panel_width; first += vectors * R::lanes) {
      typename R::Vector sum[n_rows][vectors] = {};
      const T *panel = work.panels.panel(p) + first;
      for (int64_t k = 0; k < work.rows.n_features; ++k, panel += panel_width)
        for (int v = 0; v < vectors; ++v) {
          typename R::Vector c;
          R::load(c, panel + v * R::lanes);
          for (int r = 0; r < n_rows; ++r)
            sum[r][v] += static_cast<T>(x[r][k]) * c;
        }
      for (int r = 0; r < n_rows; ++r)
        std::memcpy(values[r][0] + first, sum[r], sizeof(sum[r]));
    }
  }
};

// Of sparse rows one against several panels: only columns with a slot count.
template <int bytes, class T, RowsLike Rows>
  requires requires(const Rows &rows) { rows.offsets; }
struct Tile<bytes, T, Rows> {
  using R = Registers<T, bytes>;
  static constexpr int vectors = R::in_panel, n_rows = 1;
  static constexpr int n_panels = vectors > R::most / 2 ? 1 : vectors > 2 ? 2 : 4;
  static_assert(Panels<T>::group % n_panels == 0);

  [[gnu::always_inline]] static void dots(const PanelWork<T, Rows> &work, const int64_t *which,
                                          int64_t p, T (*values)[n_panels][panel_width]) {
    typename R::Vector sum[n_panels][vectors] = {};
    const T *panel = work.panels.panel(p);
    const int64_t step = work.panels.n_slots * panel_width;
    const int64_t end = work.rows.offsets[which[0] + 1];
    for (int64_t k = work.rows.offsets[which[0]]; k < end; ++k) {
      const int32_t slot = work.panels.slots[work.rows.columns[k]];
      if (slot < 0)
        continue;
      const T x = static_cast<T>(work.rows.values[k]);
      for (int q = 0; q < n_panels; ++q)
        for (int v = 0; v < vectors; ++v) {
          typename R::Vector c;
          R::load(c, panel + q * step + slot * panel_width + v * R::lanes);
          sum[q][v] += x * c;
        }
    }
    std::memcpy(values[0], sum, sizeof(sum));
  }
};

// Kernel values of rows i.. and of the centres of panels p..; past the end row i again.
template <int bytes, class T, RowsLike Rows>
[[gnu::always_inline]] inline void
tile_values(const PanelWork<T, Rows> &work, int64_t i, int64_t p,
            T (*values)[Tile<bytes, T, Rows>::n_panels][panel_width]) {
  using Part = Tile<bytes, T, Rows>;
  int64_t which[Part::n_rows];
  for (int r = 0; r < Part::n_rows; ++r)
    which[r] = work.which[i + r < work.n ? i + r : i];
  Part::dots(work, which, p, values);
  for (int r = 0; r < Part::n_rows; ++r)
    for (int q = 0; q < Part::n_panels; ++q)
      finish_panel<bytes, T>(
          work.formula, work.constant, static_cast<T>(work.squared_norms[which[r]]),
          work.panels.squared_norms.data() + (p + q) * panel_width, values[r][q]);
}

// out[c][i] = K(x_which[i], c) for every centre c.
template <int bytes, class T, RowsLike Rows>
[[gnu::always_inline]] inline void block_with(const PanelWork<T, Rows> &work, T *const *out) {
  using Part = Tile<bytes, T, Rows>;
  T values[panel_width][Part::n_panels][panel_width];
  for (int64_t p = 0; p < work.panels.n_panels(); p += Part::n_panels)
    for (int64_t i = 0; i < work.n; i += panel_width) {
      // Sixteen rows at a time: what is written for a centre is then in one place.
      const int64_t here = std::min(panel_width, work.n - i);
      for (int64_t r = 0; r < here; r += Part::n_rows)
        tile_values<bytes>(work, i + r, p, values + r);
      const int64_t used =
          std::min(Part::n_panels * panel_width, work.panels.n_centres - p * panel_width);
      for (int64_t c = 0; c < used; ++c)
        for (int64_t r = 0; r < here; ++r)
          out[p * panel_width + c][i + r] = values[r][c / panel_width][c % panel_width];
    }
}

// sums[i] += sum_c coefficients[c] K(x_which[i], c), sums in float64. Coefficients are padded
// with zeros to `n_padded` panels.
template <int bytes, class T, RowsLike Rows>
[[gnu::always_inline]] inline void sums_with(const PanelWork<T, Rows> &work,
                                             const double *coefficients, double *sums) {
  using Part = Tile<bytes, T, Rows>;
  T values[Part::n_rows][Part::n_panels][panel_width];
  for (int64_t p = 0; p < work.panels.n_panels(); p += Part::n_panels)
    for (int64_t i = 0; i < work.n; i += Part::n_rows) {
      tile_values<bytes>(work, i, p, values);
      for (int64_t r = 0; r < Part::n_rows && i + r < work.n; ++r)
        for (int64_t q = 0; q < Part::n_panels; ++q) {
          const double *a = coefficients + (p + q) * panel_width;
          double sum = 0;
#pragma omp simd reduction(+ : sum)
          for (int k = 0; k < panel_width; ++k)
            sum += a[k] * static_cast<double>(values[r][q][k]);
          sums[i + r] += sum;
        }
    }
}

// For each level of processors; see cpu.hpp.
template <class T, RowsLike Rows> void block_any(const PanelWork<T, Rows> &work, T *const *out) {
  block_with<16>(work, out);
}
template <class T, RowsLike Rows>
BRIDLE_V3 void block_v3(const PanelWork<T, Rows> &work, T *const *out) {
  block_with<32>(work, out);
}
template <class T, RowsLike Rows>
BRIDLE_V4 void block_v4(const PanelWork<T, Rows> &work, T *const *out) {
  block_with<64>(work, out);
}
template <class T, RowsLike Rows>
void sums_any(const PanelWork<T, Rows> &work, const double *coefficients, double *sums) {
  sums_with<16>(work, coefficients, sums);
}
template <class T, RowsLike Rows>
BRIDLE_V3 void sums_v3(const PanelWork<T, Rows> &work, const double *coefficients, double *sums) {
  sums_with<32>(work, coefficients, sums);
}
template <class T, RowsLike Rows>
BRIDLE_V4 void sums_v4(const PanelWork<T, Rows> &work, const double *coefficients, double *sums) {
  sums_with<64>(work, coefficients, sums);
}

template <class T, RowsLike Rows> void kernel_block(const PanelWork<T, Rows> &work, T *const *out) {
  widest(&block_any<T, Rows>, &block_v3<T, Rows>, &block_v4<T, Rows>)(work, out);
}
template <class T, RowsLike Rows>
void kernel_sums(const PanelWork<T, Rows> &work, const double *coefficients, double *sums) {
  widest(&sums_any<T, Rows>, &sums_v3<T, Rows>, &sums_v4<T, Rows>)(work, coefficients, sums);
}

} // namespace bridle
