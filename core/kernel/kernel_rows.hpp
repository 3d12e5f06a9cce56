// Rows of the kernel matrix at the columns of the active rows: computed many at a time, cached, and
// kept while the active rows change.
#pragma once

#include "base/cpu.hpp"
#include "base/parallel.hpp"
#include "kernel/expand.hpp"
#include "kernel/row_cache.hpp"
#include "kernel/source.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace bridle {

using RowNumbers = std::vector<int64_t>;

// sum[i] += sum_k weights[k] rows[k][i]
template <class T>
BRIDLE_WIDEST void add_rows(const T *const *rows, const double *weights, int64_t n_rows,
                            int64_t begin, int64_t end, double *sum) {
  int64_t k = 0;
  for (; k + 4 <= n_rows; k += 4) {
    const T *r0 = rows[k], *r1 = rows[k + 1], *r2 = rows[k + 2], *r3 = rows[k + 3];
    const double w0 = weights[k], w1 = weights[k + 1], w2 = weights[k + 2], w3 = weights[k + 3];
    for (int64_t i = begin; i < end; ++i)
      sum[i] += (w0 * r0[i] + w1 * r1[i]) + (w2 * r2[i] + w3 * r3[i]);
  }
  for (; k < n_rows; ++k)
    for (int64_t i = begin; i < end; ++i)
      sum[i] += weights[k] * rows[k][i];
}

template <class T> class KernelRows {
public:
  KernelRows(std::unique_ptr<KernelSource<T>> source, int64_t cache_bytes, int n_threads)
      : source_(std::move(source)), cache_(source_->n_rows(), cache_bytes), n_threads_(n_threads) {}

  const KernelSource<T> &source() const { return *source_; }
  int64_t cache_peak_bytes() const { return cache_.peak_bytes(); }

  // Where K(wanted[k], active[p]) is, or will be once `compute` was called for all p, for each k.
  // Valid until the next call.
  void prepare(const RowNumbers &wanted, int64_t n_active, std::vector<T *> &rows) {
    rows.resize(wanted.size());
    for (size_t k = 0; k < wanted.size(); ++k)
      rows[k] = cache_.find(wanted[k]);
    missing_.clear();
    out_.clear();
    for (size_t k = 0; k < wanted.size(); ++k)
      if (!rows[k]) {
        missing_.push_back(wanted[k]);
        out_.push_back(rows[k] = cache_.add(wanted[k], n_active));
      }
    if (!out_.empty())
      source_->pack(missing_, panels_);
  }

  // The values that were missing, at the columns active[begin..end-1]: other threads may do others.
  void compute(const RowNumbers &active, int64_t begin, int64_t end) const {
    if (out_.empty() || begin >= end)
      return;
    std::vector<T *> here(out_);
    for (T *&row : here)
      row += begin;
    source_->block(panels_, std::span(active).subspan(begin, end - begin), here.data());
  }

  // The active rows become `rows`; place and old_place: where a row is among them, and was, or -1.
  // keep(row): whether a cached row is worth the columns that it lacks.
  template <class Keep>
  void activate(const RowNumbers &rows, const RowNumbers &old_place, const RowNumbers &place,
                Keep &&keep) {
    const bool only_fewer =
        std::all_of(rows.begin(), rows.end(), [&](int64_t row) { return old_place[row] >= 0; });
    for (const int64_t row : cache_.rows())
      if (place[row] < 0 || (!only_fewer && !keep(row)))
        cache_.drop(row);
    if (only_fewer)
      narrow(rows, old_place);
    else
      widen(rows, old_place);
    cache_.recount(static_cast<int64_t>(rows.size()));
  }

private:
  // Calls work(first, count) for batches of cached rows.
  template <class Work> void for_cached(const RowNumbers &cached, Work &&work) {
    const auto n = static_cast<int64_t>(cached.size());
    for_blocks((n + panel_width - 1) / panel_width, n_threads_, [&](int64_t batch) {
      const int64_t first = batch * panel_width;
      work(first, std::min(panel_width, n - first));
    });
  }

  // Cached rows lose the columns that are left out.
  void narrow(const RowNumbers &rows, const RowNumbers &old_place) {
    const auto size = static_cast<int64_t>(rows.size());
    std::vector<int32_t> from(size); // increasing, so that values can move in place
    for (int64_t p = 0; p < size; ++p)
      from[p] = static_cast<int32_t>(old_place[rows[p]]);
    const RowNumbers cached = cache_.rows();
    for_cached(cached, [&](int64_t first, int64_t count) {
      for (int64_t c = first; c < first + count; ++c) {
        Buffer<T> &buffer = cache_.values(cached[c]);
        T *values = buffer.data();
        for (int64_t p = 0; p < size; ++p)
          values[p] = values[from[p]];
        buffer.shrink(size);
      }
    });
  }

  // Cached rows get the columns that are new.
  void widen(const RowNumbers &rows, const RowNumbers &old_place) {
    const auto size = static_cast<int64_t>(rows.size());
    cache_.fit(size, panel_width * n_threads_);
    RowNumbers added;
    for (const int64_t row : rows)
      if (old_place[row] < 0)
        added.push_back(row);
    const RowNumbers cached = cache_.rows();
    for_cached(cached, [&](int64_t first, int64_t count) {
      std::vector<T> fresh(count * added.size());
      T *out[panel_width] = {};
      for (int64_t c = 0; c < count; ++c)
        out[c] = fresh.data() + c * added.size();
      Panels<T> panels;
      source_->pack(std::span(cached).subspan(first, count), panels);
      source_->block(panels, added, out);
      for (int64_t c = 0; c < count; ++c) {
        Buffer<T> values(size);
        const T *old = cache_.values(cached[first + c]).data(), *next = out[c];
        for (int64_t p = 0; p < size; ++p) {
          const int64_t before = old_place[rows[p]];
          values.data()[p] = before >= 0 ? old[before] : *next++;
        }
        cache_.values(cached[first + c]) = std::move(values);
      }
    });
  }

  std::unique_ptr<KernelSource<T>> source_;
  RowCache<T> cache_;
  int n_threads_;
  // What is to be computed: which rows, where to, and as centres.
  RowNumbers missing_;
  std::vector<T *> out_;
  Panels<T> panels_;
};

} // namespace bridle
