// The rows that an epoch visits, and those that shrinking has left out.
//
// A row at a bound is left out if its gradient points out of the box by more than the root mean
// square of what moved in the last epoch. (The paper waits until that is more than the largest, of
// all rows, which may be one outlier. Wrong guesses cost little here: every row is looked at again
// when the others are ten times more accurate, and by each certificate.) When that has left few
// rows, they are copied together: scattered over the whole matrix, each of them would cost a trip
// to memory.
#pragma once

#include "base/memory.hpp"
#include "linear/row_sides.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <utility>

namespace bridle {

template <class W> struct DualRow {
  W alpha;
  W squared_norm;
  W signed_cost; // y_i C_i: the sign is the label
  W target;      // t_i of a regression, else 0

  W label() const { return std::copysign(W(1), signed_cost); }
  W cost() const { return std::abs(signed_cost); }
};

template <class W>
DualRow<W> dual_row(const RowSides &sides, int64_t i, double alpha, double constant) {
  return {static_cast<W>(alpha), static_cast<W>(sides.squared_norms[i] - constant * constant),
          static_cast<W>(sides.signed_cost[i]), static_cast<W>(sides.target(i))};
}

template <class W> struct ActiveRow : DualRow<W> {
  int64_t row; // in the matrix; -1 once it was shrunk in this pass
  int64_t at;  // in the view: the matrix, or the compact copy

  bool shrunk() const { return row < 0; }
};

// The bias stands for the constant feature.
template <RowsLike Rows> Rows without_constant(Rows rows) {
  rows.bias = 0;
  return rows;
}

// What visits read and change: some rows of a view, in row order.
template <RowsLike Rows> struct ActiveRows {
  using W = typename Rows::Value;

  Rows view;
  LargeVector<ActiveRow<W>> active;
  int64_t nnz = 0; // about: stored entries of the active rows

  int64_t size() const { return std::ssize(active); }

  void count_nnz() {
    nnz = 0;
    for (const ActiveRow<W> &row : active)
      nnz += view.row_nnz(row.at);
  }
};

// Active rows that know what becomes of one that is left out.
template <class A>
concept Shrinkable = requires(A &rows, ActiveRow<typename A::W> &row) {
  requires RowsLike<decltype(rows.view)>;
  { rows.size() } -> std::same_as<int64_t>;
  rows.shrink(row);
};

// All rows of a matrix that stays, active or at rest.
template <RowsLike Rows> class ResidentRows : public ActiveRows<Rows> {
public:
  using W = typename Rows::Value;
  using ActiveRows<Rows>::view, ActiveRows<Rows>::active, ActiveRows<Rows>::nnz;

  ResidentRows(const Rows &rows, const RowSides &sides, const double *alpha)
      : matrix_(without_constant(rows)), all_(rows.n_rows) {
    for (int64_t i = 0; i < rows.n_rows; ++i)
      all_[i] = dual_row<W>(sides, i, alpha[i], rows.bias);
    unshrink();
  }

  // Taken up where others have left them: row_of(i) is a DualRow, is_active(i) whether it is in
  // play.
  template <class RowOf, class IsActive>
  ResidentRows(const Rows &rows, const RowOf &row_of, const IsActive &is_active)
      : matrix_(without_constant(rows)), all_(rows.n_rows), resting_(rows.n_rows) {
    int64_t n_active = 0;
    for (int64_t i = 0; i < n_rows(); ++i) {
      all_[i] = row_of(i);
      n_useful_ += all_[i].signed_cost != 0;
      resting_[i] = all_[i].signed_cost != 0 && !is_active(i);
      n_active += is_active(i);
    }
    active.reserve(n_active);
    for (int64_t i = 0; i < n_rows(); ++i)
      if (is_active(i))
        active.push_back({all_[i], i, i});
    view = matrix_;
    compact_if_few();
  }

  const Rows &matrix() const { return matrix_; }
  int64_t n_rows() const { return matrix_.n_rows; }
  int64_t n_useful() const { return n_useful_; }
  bool whole() const { return this->size() == n_useful_; }
  bool resting(int64_t i) const { return resting_[i]; }

  // Every row; alpha is up to date for those that are at rest, and for all after `rest`.
  const LargeVector<DualRow<W>> &all() const { return all_; }
  LargeVector<DualRow<W>> &all() { return all_; }

  void rest() {
    for (const ActiveRow<W> &row : active)
      if (!row.shrunk())
        all_[row.row].alpha = row.alpha;
  }

  void alpha(double *out) const {
    for (int64_t i = 0; i < n_rows(); ++i)
      out[i] = all_[i].alpha;
    for (const ActiveRow<W> &row : active)
      if (!row.shrunk())
        out[row.row] = row.alpha;
  }

  // Every row of positive cost is active again.
  void unshrink() {
    rest();
    active.clear();
    active.reserve(n_rows());
    for (int64_t i = 0; i < n_rows(); ++i)
      if (all_[i].signed_cost != 0)
        active.push_back({all_[i], i, i});
    n_useful_ = this->size();
    nnz = matrix_.nnz();
    resting_.assign(n_rows(), 0);
    view = matrix_;
    compact_ = {};
  }

  // Safe for different rows at once.
  void shrink(ActiveRow<W> &row) {
    all_[row.row].alpha = row.alpha;
    resting_[row.row] = 1;
    row.row = -1;
  }

  void drop_shrunk() {
    std::erase_if(active, [](const ActiveRow<W> &row) { return row.shrunk(); });
    compact_if_few();
  }

private:
  // At most a fifth of the matrix is ever copied.
  void compact_if_few() {
    this->count_nnz();
    if (5 * nnz > matrix_.nnz() || 2 * nnz > view.nnz())
      return;
    typename Rows::Copy copy;
    copy.reserve(this->size(), nnz);
    for (ActiveRow<W> &row : active)
      row.at = copy.append(view, row.at);
    compact_ = std::move(copy);
    view = compact_.view(matrix_);
  }

  Rows matrix_;
  typename Rows::Copy compact_;
  LargeVector<DualRow<W>> all_;
  LargeVector<uint8_t> resting_; // 1: the row has been shrunk
  int64_t n_useful_ = 0;         // rows with C_i > 0
};

} // namespace bridle
