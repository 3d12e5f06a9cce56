// Kernel values K(c, x) for many pairs at once. Centres are packed sixteen to a panel, feature by
// feature, so that one row against a panel is sixteen inner products with no horizontal sum: the
// row's values are broadcast, dense and sparse alike, as in a matrix product.
#pragma once

#include "base/parallel.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

// The widest instructions that the machine at hand has, chosen when the library is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BRIDLE_WIDEST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BRIDLE_WIDEST
#endif

namespace bridle {

enum class KernelName { linear, rbf, poly, sigmoid, precomputed };

// linear: c.x   rbf: exp(-gamma |c - x|^2)   poly: (gamma c.x + coef0)^degree
// sigmoid: tanh(gamma c.x + coef0)   precomputed: the rows are the matrix of values.  `constant` is
// added to every value (a regularised bias).
struct Kernel {
  KernelName name;
  double gamma, coef0;
  int degree;
  double constant;
};

inline KernelName kernel_from_name(const std::string &name) {
  if (name == "linear")
    return KernelName::linear;
  if (name == "rbf")
    return KernelName::rbf;
  if (name == "poly")
    return KernelName::poly;
  if (name == "sigmoid")
    return KernelName::sigmoid;
  if (name == "precomputed")
    return KernelName::precomputed;
  throw std::invalid_argument("unknown kernel: " + name);
}

constexpr int64_t panel_width = 16;

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

// e^x for x <= 0, sixteen at a time: 2^n times a polynomial in the rest (Cody & Waite). The rest is
// at most ln(2)/2, where degree 6 and 13 are accurate to the last bit or two.
[[gnu::always_inline]] inline void exp_panel(float *x) {
  constexpr float magic = 12582912.0f; // adding it rounds to an integer
  for (int k = 0; k < panel_width; ++k) {
    const float z = x[k] < -87.0f ? -87.0f : x[k];
    const float shifted = z * 1.442695041f + magic;
    const float n = shifted - magic;
    const float r = (z - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const int32_t exponent = std::bit_cast<int32_t>(shifted) << 23;
    x[k] = std::bit_cast<float>(std::bit_cast<int32_t>(p) + exponent);
  }
}

[[gnu::always_inline]] inline void exp_panel(double *x) {
  constexpr double magic = 6755399441055744.0;
  for (int k = 0; k < panel_width; ++k) {
    const double z = x[k] < -700.0 ? -700.0 : x[k];
    const double shifted = z * 1.4426950408889634 + magic;
    const double n = shifted - magic;
    const double r = (z - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const int64_t exponent = std::bit_cast<int64_t>(shifted) << 52;
    x[k] = std::bit_cast<double>(std::bit_cast<int64_t>(p) + exponent);
  }
}

inline double power(double base, int exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1)
      result *= base;
  return result;
}

// Turns sixteen inner products into kernel values.
template <class T>
[[gnu::always_inline]] inline void finish_panel(const Kernel &kernel, T row_norm,
                                                const T *centre_norms, T *values) {
  const T gamma = static_cast<T>(kernel.gamma), coef0 = static_cast<T>(kernel.coef0);
  switch (kernel.name) {
  case KernelName::linear:
  case KernelName::precomputed:
    break;
  case KernelName::rbf:
    for (int k = 0; k < panel_width; ++k) {
      const T squared = row_norm + centre_norms[k] - 2 * values[k];
      values[k] = -gamma * (squared > 0 ? squared : 0);
    }
    exp_panel(values);
    break;
  case KernelName::poly:
    for (int k = 0; k < panel_width; ++k) {
      T base = gamma * values[k] + coef0, result = 1;
      for (int e = kernel.degree; e > 0; e >>= 1, base *= base)
        if (e & 1)
          result *= base;
      values[k] = result;
    }
    break;
  case KernelName::sigmoid:
    for (int k = 0; k < panel_width; ++k)
      values[k] = std::tanh(gamma * values[k] + coef0);
    break;
  }
  const T constant = static_cast<T>(kernel.constant);
  for (int k = 0; k < panel_width; ++k)
    values[k] += constant;
}

// One value K(x, x) from |x|^2.
inline double diagonal_value(const Kernel &kernel, double squared_norm) {
  const double affine = kernel.gamma * squared_norm + kernel.coef0;
  switch (kernel.name) {
  case KernelName::linear:
    return squared_norm + kernel.constant;
  case KernelName::rbf:
    return 1 + kernel.constant;
  case KernelName::poly:
    return power(affine, kernel.degree) + kernel.constant;
  case KernelName::sigmoid:
    return std::tanh(affine) + kernel.constant;
  case KernelName::precomputed:
    break;
  }
  return 0;
}

template <class T, int lanes = 64 / sizeof(T)> struct Lanes {
  // Unaligned on purpose: panels and rows start anywhere.
  typedef T Vector __attribute__((vector_size(64), aligned(alignof(T)), may_alias));
  static constexpr int count = panel_width / lanes; // vectors in a panel
};

// values[r][k] = x_{rows[r]} . c_k for four dense rows.
template <class T, class Value>
[[gnu::always_inline]] inline void panel_dots(const DenseRows<Value> &rows, const int64_t *which,
                                              const Panels<T> &, const T *panel,
                                              T (*values)[panel_width]) {
  using L = Lanes<T>;
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
  using L = Lanes<T>;
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
template <class T, class Rows>
[[gnu::always_inline]] inline void
panel_values(const Kernel &kernel, const Rows &rows, const double *squared_norms,
             const int64_t *which, const Panels<T> &panels, int64_t p, T (*values)[panel_width]) {
  panel_dots(rows, which, panels, panels.panel(p), values);
  for (int r = 0; r < 4; ++r)
    finish_panel(kernel, static_cast<T>(squared_norms[which[r]]),
                 panels.squared_norms.data() + p * panel_width, values[r]);
}

// out[c][i - begin] = K(x_{which[i]}, c) for i in begin..end-1 and every centre c.
template <class T, class Rows>
BRIDLE_WIDEST void kernel_block(const Kernel &kernel, const Rows &rows, const double *squared_norms,
                                const int64_t *which, int64_t n, const Panels<T> &panels,
                                T *const *out) {
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
        panel_values(kernel, rows, squared_norms, four, panels, p, values + r);
      }
      for (int64_t c = 0; c < used; ++c)
        for (int64_t r = 0; r < n_here; ++r)
          out[p * panel_width + c][i + r] = values[r][c];
    }
  }
}

// sums[i] += sum_c coefficients[c] K(x_{which[i]}, c), sums in float64. Coefficients are padded
// with zeros to whole panels.
template <class T, class Rows>
BRIDLE_WIDEST void kernel_sums(const Kernel &kernel, const Rows &rows, const double *squared_norms,
                               const int64_t *which, int64_t n, const Panels<T> &panels,
                               const double *coefficients, double *sums) {
  T values[4][panel_width];
  for (int64_t p = 0; p < panels.n_panels(); ++p) {
    const double *a = coefficients + p * panel_width;
    for (int64_t i = 0; i < n; i += 4) {
      int64_t four[4];
      for (int k = 0; k < 4; ++k)
        four[k] = which[i + k < n ? i + k : i];
      panel_values(kernel, rows, squared_norms, four, panels, p, values);
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

// Where kernel values come from: rows and a formula, or a matrix. Everything that learns from
// kernels works on this.
template <class T> class KernelSource {
public:
  virtual ~KernelSource() = default;
  virtual int64_t n_rows() const = 0;
  virtual double diagonal(int64_t i) const = 0;
  // Makes rows of this source into centres.
  virtual void pack(std::span<const int64_t> centres, Panels<T> &panels) const = 0;
  virtual void block(const Panels<T> &panels, std::span<const int64_t> which,
                     T *const *out) const = 0;
  virtual void sums(const Panels<T> &panels, std::span<const int64_t> which,
                    const double *coefficients, double *sums) const = 0;
};

template <class T, class Rows> class FormulaSource final : public KernelSource<T> {
public:
  FormulaSource(const Kernel &kernel, const Rows &rows, const double *squared_norms)
      : kernel_(kernel), rows_(rows), squared_norms_(squared_norms) {}

  int64_t n_rows() const override { return rows_.n_rows; }
  double diagonal(int64_t i) const override { return diagonal_value(kernel_, squared_norms_[i]); }

  void pack(std::span<const int64_t> centres, Panels<T> &panels) const override {
    pack_from(rows_, squared_norms_, centres, panels);
  }

  // Centres that are rows of another matrix with as many columns.
  template <class Other>
  void pack_from(const Other &other, const double *squared_norms, std::span<const int64_t> centres,
                 Panels<T> &panels) const {
    panels.n_centres = static_cast<int64_t>(centres.size());
    panels.squared_norms.assign(panels.n_panels() * panel_width, T(0));
    assign_slots(other, centres, panels);
    panels.packed.assign(panels.n_panels() * panels.n_slots * panel_width, T(0));
    for (int64_t c = 0; c < panels.n_centres; ++c) {
      T *panel = panels.packed.data() + c / panel_width * panels.n_slots * panel_width;
      panels.squared_norms[c] = static_cast<T>(squared_norms[centres[c]]);
      other.for_each(centres[c], [&](int64_t column, auto value) {
        const int64_t slot = panels.slots.empty() ? column : panels.slots[column];
        panel[slot * panel_width + c % panel_width] = static_cast<T>(value);
      });
    }
  }

  void block(const Panels<T> &panels, std::span<const int64_t> which,
             T *const *out) const override {
    kernel_block<T>(kernel_, rows_, squared_norms_, which.data(), which.size(), panels, out);
  }

  void sums(const Panels<T> &panels, std::span<const int64_t> which, const double *coefficients,
            double *sums) const override {
    kernel_sums<T>(kernel_, rows_, squared_norms_, which.data(), which.size(), panels, coefficients,
                   sums);
  }

private:
  static constexpr bool is_sparse = requires(const Rows &r) { r.offsets; };

  template <class Other>
  void assign_slots(const Other &other, std::span<const int64_t> centres, Panels<T> &panels) const {
    panels.slots.clear();
    panels.n_slots = rows_.n_features;
    if constexpr (is_sparse) {
      panels.slots.assign(rows_.n_features, -1);
      int32_t next = 0;
      for (const int64_t c : centres)
        other.for_each(c, [&](int64_t column, auto) {
          if (panels.slots[column] < 0)
            panels.slots[column] = next++;
        });
      panels.n_slots = next;
    }
  }

  Kernel kernel_;
  Rows rows_;
  const double *squared_norms_;
};

// K given as a matrix, n_rows x n_columns; the centres are its columns.
template <class T, class Value> class MatrixSource final : public KernelSource<T> {
public:
  MatrixSource(const DenseRows<Value> &matrix, double constant)
      : matrix_(matrix), constant_(constant) {}

  int64_t n_rows() const override { return matrix_.n_rows; }
  double diagonal(int64_t i) const override {
    return static_cast<double>(matrix_.row(i)[i]) + constant_;
  }
  void pack(std::span<const int64_t> centres, Panels<T> &panels) const override {
    panels.n_centres = static_cast<int64_t>(centres.size());
    panels.rows.assign(centres.begin(), centres.end());
  }
  void block(const Panels<T> &panels, std::span<const int64_t> which,
             T *const *out) const override {
    for (size_t i = 0; i < which.size(); ++i)
      for (int64_t c = 0; c < panels.n_centres; ++c)
        out[c][i] = value(which[i], panels.rows[c]);
  }
  void sums(const Panels<T> &panels, std::span<const int64_t> which, const double *coefficients,
            double *sums) const override {
    for (size_t i = 0; i < which.size(); ++i)
      for (int64_t c = 0; c < panels.n_centres; ++c)
        sums[i] += coefficients[c] * static_cast<double>(value(which[i], panels.rows[c]));
  }

private:
  T value(int64_t i, int64_t j) const {
    return static_cast<T>(matrix_.row(i)[j]) + static_cast<T>(constant_);
  }

  DenseRows<Value> matrix_;
  double constant_;
};

template <class T, class Rows>
std::unique_ptr<KernelSource<T>> make_source(const Kernel &kernel, const Rows &rows,
                                             const double *squared_norms) {
  if (kernel.name != KernelName::precomputed)
    return std::make_unique<FormulaSource<T, Rows>>(kernel, rows, squared_norms);
  if constexpr (requires { rows.row(0); })
    return std::make_unique<MatrixSource<T, typename Rows::Value>>(rows, kernel.constant);
  throw std::invalid_argument("a precomputed kernel must be a dense matrix");
}

// How many centres are packed at once, and how many rows a thread takes at a time.
constexpr int64_t centres_at_once = 64, rows_at_once = 512;

// sums[k] = sum_c coefficients[c] K(x_which[k], c), for centres made by `pack(chosen, panels)`
// where `chosen` are positions among the coefficients that are not zero. The same for any number of
// threads.
template <class T, class Pack>
void expand(const KernelSource<T> &source, std::span<const double> coefficients,
            std::span<const int64_t> which, Pack &&pack, double *sums, int n_threads) {
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
      weights[g].assign(groups[g].n_panels() * panel_width, 0.0);
      for (int64_t k = 0; k < to - from; ++k)
        weights[g][k] = coefficients[chosen[k]];
    }
    const int64_t n_blocks = (n_rows + rows_at_once - 1) / rows_at_once;
    for_blocks(n_blocks, n_rows * (end - begin) > 300000 ? n_threads : 1, [&](int64_t block) {
      const auto [first, last] = block_range(n_rows, n_blocks, block);
      for (int64_t g = 0; g < n_groups; ++g)
        source.sums(groups[g], which.subspan(first, last - first), weights[g].data(), sums + first);
    });
  }
}

} // namespace bridle
