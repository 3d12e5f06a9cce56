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
#include "base/parallel.hpp"
#include "linear/row_sides.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

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

  explicit ActiveRows(const Rows &rows) : view(without_constant(rows)) {}
  // What becomes of a row that is left out; safe for different rows at once.
  virtual void shrink(ActiveRow<W> &row) = 0;

  Rows view;
  RawVector<ActiveRow<W>> active;
  int64_t nnz = 0; // about: stored entries of the active rows

  int64_t size() const { return std::ssize(active); }

  void count_nnz(int n_threads = 1) {
    std::atomic<int64_t> sum{0};
    for_ranges(size(), 8192, n_threads, [&](Range part) {
      int64_t here = 0;
      for (int64_t j = part.begin; j < part.end; ++j)
        here += view.row_nnz(active[j].at);
      sum += here;
    });
    nnz = sum;
  }
};

// All rows of a matrix that stays, active or at rest.
template <RowsLike Rows> class ResidentRows : public ActiveRows<Rows> {
public:
  using W = typename Rows::Value;
  using ActiveRows<Rows>::view, ActiveRows<Rows>::active, ActiveRows<Rows>::nnz;

  ResidentRows(const Rows &rows, const RowSides &sides, const double *alpha, int n_threads = 1)
      : ActiveRows<Rows>(rows), n_threads_(n_threads), matrix_(view), all_(rows.n_rows),
        resting_(rows.n_rows) {
    in_parts(n_rows(), [&](Range part) {
      for (int64_t i = part.begin; i < part.end; ++i)
        all_[i] = dual_row<W>(sides, i, alpha[i], rows.bias);
    });
    unshrink();
  }

  // Taken up where others have left them; in_play: of each row, whether it is.
  ResidentRows(const Rows &rows, RawVector<DualRow<W>> all, const RawVector<uint8_t> &in_play)
      : ActiveRows<Rows>(rows), matrix_(view), all_(std::move(all)), resting_(rows.n_rows) {
    int64_t n_active = 0;
    for (int64_t i = 0; i < n_rows(); ++i) {
      n_useful_ += all_[i].signed_cost != 0;
      resting_[i] = all_[i].signed_cost != 0 && !in_play[i];
      n_active += in_play[i];
    }
    active.reserve(n_active);
    for (int64_t i = 0; i < n_rows(); ++i)
      if (in_play[i])
        active.push_back({all_[i], i, i});
    compact_if_few();
  }

  const Rows &matrix() const { return matrix_; }
  int64_t n_rows() const { return matrix_.n_rows; }
  int64_t n_useful() const { return n_useful_; }
  bool whole() const { return this->size() == n_useful_; }
  bool resting(int64_t i) const { return resting_[i]; }

  // Every row; alpha is up to date for those that are at rest, and for all after `rest`.
  const RawVector<DualRow<W>> &all() const { return all_; }
  RawVector<DualRow<W>> &all() { return all_; }

  void rest() {
    for_active([&](const ActiveRow<W> &row) { all_[row.row].alpha = row.alpha; });
  }

  void alpha(double *out) const {
    in_parts(n_rows(), [&](Range part) {
      for (int64_t i = part.begin; i < part.end; ++i)
        out[i] = all_[i].alpha;
    });
    for_active([&](const ActiveRow<W> &row) { out[row.row] = row.alpha; });
  }

  // Every row of positive cost is active again.
  void unshrink() {
    rest();
    active = collect(n_rows(), [&](int64_t i, auto &&keep) {
      resting_[i] = 0;
      if (all_[i].signed_cost != 0)
        keep(ActiveRow<W>{all_[i], i, i});
    });
    n_useful_ = this->size();
    nnz = matrix_.nnz();
    view = matrix_;
    compact_ = {};
  }

  void shrink(ActiveRow<W> &row) override {
    all_[row.row].alpha = row.alpha;
    resting_[row.row] = 1;
    row.row = -1;
  }

  void drop_shrunk() {
    active = collect(this->size(), [&](int64_t j, auto &&keep) {
      if (!active[j].shrunk())
        keep(active[j]);
    });
    compact_if_few();
  }

private:
  static constexpr int64_t grain = 8192; // rows that are worth a thread, for loops like these

  template <class Work> void in_parts(int64_t n, Work &&work) const {
    for_ranges(n, grain, n_threads_, work);
  }

  template <class Work> void for_active(Work &&work) const {
    in_parts(this->size(), [&](Range part) {
      for (int64_t j = part.begin; j < part.end; ++j)
        if (!active[j].shrunk())
          work(active[j]);
    });
  }

  // What pick(k, keep) keeps for k = 0..n-1, in that order: counted first, then put in its place.
  template <class Pick> RawVector<ActiveRow<W>> collect(int64_t n, Pick &&pick) const {
    std::vector<int64_t> places((n + grain - 1) / grain + 1, 0);
    in_parts(n, [&](Range part) {
      int64_t kept = 0;
      for (int64_t k = part.begin; k < part.end; ++k)
        pick(k, [&](const ActiveRow<W> &) { ++kept; });
      places[part.begin / grain + 1] = kept;
    });
    for (size_t part = 1; part < places.size(); ++part)
      places[part] += places[part - 1];
    RawVector<ActiveRow<W>> found(places.back());
    in_parts(n, [&](Range part) {
      int64_t at = places[part.begin / grain];
      for (int64_t k = part.begin; k < part.end; ++k)
        pick(k, [&](const ActiveRow<W> &row) { found[at++] = row; });
    });
    return found;
  }

  // At most a fifth of the matrix is ever copied.
  void compact_if_few() {
    this->count_nnz(n_threads_);
    if (5 * nnz > matrix_.nnz() || 2 * nnz > view.nnz())
      return;
    typename Rows::Copy copy;
    copy.take(view, this->size(), [&](int64_t j) { return active[j].at; }, n_threads_);
    in_parts(this->size(), [&](Range part) {
      for (int64_t j = part.begin; j < part.end; ++j)
        active[j].at = j;
    });
    compact_ = std::move(copy);
    view = compact_.view(matrix_);
  }

  int n_threads_ = 1;
  Rows matrix_;
  typename Rows::Copy compact_;
  RawVector<DualRow<W>> all_;
  RawVector<uint8_t> resting_; // 1: the row has been shrunk
  int64_t n_useful_ = 0;       // rows with C_i > 0
};

} // namespace bridle
