// Where kernel values come from: rows and a formula, or a matrix. Everything that learns from
// kernels works on this.
#pragma once

#include "kernel/mercer.hpp"
#include "kernel/panels.hpp"
#include "rows/views.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

namespace bridle {

template <class T> class KernelSource {
public:
  virtual ~KernelSource() = default;
  virtual int64_t n_rows() const = 0;
  virtual double diagonal(int64_t i) const = 0;
  virtual int64_t n_features() const = 0;
  virtual bool sparse() const = 0; // what its panels are for
  // Makes rows of this source into centres.
  virtual void pack(std::span<const int64_t> centres, Panels<T> &panels) const = 0;
  virtual void block(const Panels<T> &panels, std::span<const int64_t> which,
                     T *const *out) const = 0;
  virtual void sums(const Panels<T> &panels, std::span<const int64_t> which,
                    const double *coefficients, double *sums) const = 0;
};

// Rows of any matrix with as many columns as the source made into centres for it.
template <class T, RowsLike Centres>
void pack_centres(const KernelSource<T> &source, const Centres &rows, const double *squared_norms,
                  std::span<const int64_t> centres, Panels<T> &panels) {
  panels.n_centres = static_cast<int64_t>(centres.size());
  panels.for_sparse = source.sparse();
  panels.squared_norms.assign(panels.n_padded() * panel_width, T(0));
  panels.slots.clear();
  panels.n_slots = source.n_features();
  if (panels.for_sparse) {
    panels.slots.assign(source.n_features(), -1);
    int32_t next = 0;
    for (const int64_t c : centres)
      rows.for_each(c, [&](int64_t column, auto) {
        if (panels.slots[column] < 0)
          panels.slots[column] = next++;
      });
    panels.n_slots = next;
  }
  panels.packed.assign(panels.n_padded() * panels.n_slots * panel_width, T(0));
  for (int64_t c = 0; c < panels.n_centres; ++c) {
    T *panel = panels.packed.data() + c / panel_width * panels.n_slots * panel_width;
    panels.squared_norms[c] = static_cast<T>(squared_norms[centres[c]]);
    rows.for_each(centres[c], [&](int64_t column, auto value) {
      const int64_t slot = panels.slots.empty() ? column : panels.slots[column];
      panel[slot * panel_width + c % panel_width] = static_cast<T>(value);
    });
  }
}

template <class T, RowsLike Rows> class FormulaSource final : public KernelSource<T> {
public:
  FormulaSource(const Formula &formula, double constant, const Rows &rows,
                const double *squared_norms)
      : formula_(formula), constant_(constant), rows_(rows), squared_norms_(squared_norms) {}

  int64_t n_rows() const override { return rows_.n_rows; }
  double diagonal(int64_t i) const override {
    return diagonal_value(formula_, squared_norms_[i]) + constant_;
  }

  int64_t n_features() const override { return rows_.n_features; }
  bool sparse() const override {
    return requires(const Rows &r) { r.offsets; };
  }
  void pack(std::span<const int64_t> centres, Panels<T> &panels) const override {
    pack_centres(*this, rows_, squared_norms_, centres, panels);
  }

  void block(const Panels<T> &panels, std::span<const int64_t> which,
             T *const *out) const override {
    kernel_block(work(panels, which), out);
  }

  void sums(const Panels<T> &panels, std::span<const int64_t> which, const double *coefficients,
            double *sums) const override {
    kernel_sums(work(panels, which), coefficients, sums);
  }

private:
  PanelWork<T, Rows> work(const Panels<T> &panels, std::span<const int64_t> which) const {
    return {formula_,     static_cast<T>(constant_),          rows_, squared_norms_,
            which.data(), static_cast<int64_t>(which.size()), panels};
  }

  Formula formula_;
  double constant_;
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
  int64_t n_features() const override { return matrix_.n_features; }
  bool sparse() const override { return false; }
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
    // By groups of centres, so that few terms go through many roundings.
    for (size_t i = 0; i < which.size(); ++i) {
      double sum = 0;
      for (int64_t c = 0; c < panels.n_centres; ++c)
        sum += coefficients[c] * static_cast<double>(value(which[i], panels.rows[c]));
      sums[i] += sum;
    }
  }

private:
  T value(int64_t i, int64_t j) const {
    return static_cast<T>(matrix_.row(i)[j]) + static_cast<T>(constant_);
  }

  DenseRows<Value> matrix_;
  double constant_;
};

template <class T, RowsLike Rows>
std::unique_ptr<KernelSource<T>> make_source(const Kernel &kernel, const Rows &rows,
                                             const double *squared_norms) {
  if (!kernel.precomputed())
    return std::make_unique<FormulaSource<T, Rows>>(*kernel.formula, kernel.constant, rows,
                                                    squared_norms);
  if constexpr (requires { rows.row(0); })
    return std::make_unique<MatrixSource<T, typename Rows::Value>>(rows, kernel.constant);
  throw std::invalid_argument("a precomputed kernel must be a dense matrix");
}

} // namespace bridle
