// A reader of the svmlight / LIBSVM text format that uses every core.
//
//   line    = [label ["qid:" integer] {index ":" value}] ["#" comment]
//   label, value = a finite decimal number;  index = an integer in [0, 2^31 - 2]
//
// It makes two passes. The first counts colons and newlines, at memory speed: they bound
// the number of non-zeros and of rows from above, exactly so for most files. The arrays are then
// allocated once, and the second pass parses every chunk straight into its final place. No private
// buffers, no growing and no copy: at its peak it holds the text and the result, nothing
// else.
#pragma once

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "text/chunk_parser.hpp"
#include "text/chunks.hpp"
#include "text/table.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bridle::svmlight {

namespace detail {

// All chunks into one table.
template <class T> class Reader {
public:
  Reader(std::string_view text, const ReadOptions &options)
      : source_(text, std::max<std::size_t>(options.chunk_bytes, 1)), options_(options),
        parts_(source_.chunks().size()) {}

  // `largest` is the highest index allowed, as written in the file.
  Table<T> read(const std::string &name, std::int64_t largest) {
    allocate();
    // Most files count from one. If a zero turns up after all, the columns are put right later.
    const std::int32_t shift = options_.base == IndexBase::zero ? 0 : 1;
    parse(name, {options_.base == IndexBase::one ? 1 : 0, largest}, shift);
    close_gaps();
    if (table_.n_rows == 0)
      throw ParseError(name + ":1:1: expected rows, found no rows");
    settle_base(shift);
    build_indptr();
    trim();
    return std::move(table_);
  }

private:
  struct Part {
    std::size_t first_row = 0, first_nonzero = 0; // where this chunk writes
    std::int64_t n_rows = 0, n_nonzero = 0;       // what it wrote
    std::int64_t smallest = kMaxIndex, largest = -1;
    Counts bound;
    Failure failure;
  };

  const Chunk &chunk(std::int64_t k) const { return source_.chunks()[static_cast<std::size_t>(k)]; }
  Part &part(std::int64_t k) { return parts_[static_cast<std::size_t>(k)]; }
  std::int64_t n_chunks() const { return static_cast<std::int64_t>(parts_.size()); }
  // The last chunk is a copy on the heap.
  bool may_give_back(std::int64_t k) const {
    return options_.text_is_mapped_file && k + 1 < n_chunks();
  }

  void allocate() {
    for_blocks(n_chunks(), options_.n_threads, [&](std::int64_t k) {
      part(k).bound = count(chunk(k));
      if (may_give_back(k))
        give_back(chunk(k));
    });
    std::size_t rows = 0, nonzeros = 0;
    for (Part &part : parts_) {
      part.first_row = rows;
      part.first_nonzero = nonzeros;
      rows += part.bound.newlines;
      nonzeros += part.bound.colons;
    }
    table_.labels = Buffer<double>(rows);
    table_.indptr32 = Buffer<std::int32_t>(rows + 1);
    table_.indices = Buffer<std::int32_t>(nonzeros);
    table_.values = Buffer<T>(nonzeros);
    if (options_.want_qid)
      table_.qids = Buffer<std::int64_t>(rows);
  }

  // indptr32 holds the length of row r at r + 1, until build_indptr.
  Output<T> output(const Part &part) {
    return {table_.labels.data() + part.first_row, table_.indptr32.data() + part.first_row + 1,
            options_.want_qid ? table_.qids.data() + part.first_row : nullptr,
            table_.indices.data() + part.first_nonzero, table_.values.data() + part.first_nonzero};
  }

  void parse(const std::string &name, Limits limits, std::int32_t shift) {
    std::atomic<std::int64_t> first_bad{n_chunks()};
    for_blocks(n_chunks(), options_.n_threads, [&](std::int64_t k) {
      // Only the first failure counts, so chunks before it are always read to their end.
      if (k > first_bad.load(std::memory_order_relaxed))
        return;
      Part &into = part(k);
      const Chunk &from = chunk(k);
      ChunkParser<T> parser(from.text, from.begin, from.begin + from.length, output(into), limits,
                            shift);
      if (!parser.run()) {
        into.failure = parser.failure();
        std::int64_t known = first_bad.load();
        while (k < known && !first_bad.compare_exchange_weak(known, k)) {
        }
        return;
      }
      into.n_rows = parser.n_rows();
      into.n_nonzero = parser.n_nonzero();
      into.smallest = parser.smallest_index();
      into.largest = parser.largest_index();
      if (may_give_back(k))
        give_back(from);
    });
    if (const std::int64_t bad = first_bad.load(); bad < n_chunks())
      throw ParseError(source_.describe(name, chunk(bad), part(bad).failure));
  }

  template <class U>
  static void move_down(U *data, std::int64_t to, std::size_t from, std::int64_t n) {
    if (static_cast<std::size_t>(to) != from)
      std::memmove(data + to, data + from, static_cast<std::size_t>(n) * sizeof(U));
  }

  // Comments, qids and blank lines made the bounds of a chunk too large.
  void close_gaps() {
    std::int64_t rows = 0, nonzeros = 0;
    for (const Part &part : parts_) {
      move_down(table_.labels.data(), rows, part.first_row, part.n_rows);
      move_down(table_.indptr32.data() + 1, rows, part.first_row, part.n_rows);
      if (options_.want_qid)
        move_down(table_.qids.data(), rows, part.first_row, part.n_rows);
      move_down(table_.indices.data(), nonzeros, part.first_nonzero, part.n_nonzero);
      move_down(table_.values.data(), nonzeros, part.first_nonzero, part.n_nonzero);
      rows += part.n_rows;
      nonzeros += part.n_nonzero;
    }
    table_.n_rows = rows;
    table_.n_nonzero = nonzeros;
  }

  void settle_base(std::int32_t shift) {
    std::int64_t smallest = kMaxIndex, largest = -1;
    for (const Part &part : parts_) {
      smallest = std::min(smallest, part.smallest);
      largest = std::max(largest, part.largest);
    }
    table_.zero_based = options_.base == IndexBase::zero ||
                        (options_.base == IndexBase::detect && largest >= 0 && smallest == 0);
    if (table_.zero_based && shift == 1)
      for_blocks(n_chunks(), options_.n_threads, [&](std::int64_t k) {
        const Range range = block_range(table_.n_nonzero, n_chunks(), k);
        for (std::int64_t i = range.begin; i < range.end; ++i)
          ++table_.indices.data()[i];
      });
    table_.n_features = std::max<std::int64_t>(largest + (table_.zero_based ? 1 : 0), 0);
  }

  void build_indptr() {
    std::int32_t *const lengths = table_.indptr32.data();
    lengths[0] = 0;
    if (table_.n_nonzero <= std::numeric_limits<std::int32_t>::max()) {
      for (std::int64_t r = 0; r < table_.n_rows; ++r)
        lengths[r + 1] += lengths[r];
      return;
    }
    table_.indptr64 = Buffer<std::int64_t>(static_cast<std::size_t>(table_.n_rows) + 1);
    std::int64_t *const indptr = table_.indptr64.data();
    indptr[0] = 0;
    for (std::int64_t r = 0; r < table_.n_rows; ++r)
      indptr[r + 1] = indptr[r] + lengths[r + 1];
    table_.indptr32 = {};
  }

  void trim() {
    const auto rows = static_cast<std::size_t>(table_.n_rows);
    const auto nonzeros = static_cast<std::size_t>(table_.n_nonzero);
    table_.labels.shrink(rows);
    table_.qids.shrink(rows);
    table_.indptr32.shrink(rows + 1);
    table_.indices.shrink(nonzeros);
    table_.values.shrink(nonzeros);
  }

  const ChunkedText source_;
  const ReadOptions options_;
  std::vector<Part> parts_;
  Table<T> table_;
};

} // namespace detail

// Reads a whole text. `name` is what errors call it. The result, and the error if there is one, are
// the same for every number of threads.
template <class T>
Table<T> read(std::string_view text, const std::string &name, const ReadOptions &options) {
  Table<T> table = detail::Reader<T>(text, options).read(name, kMaxIndex);
  if (options.n_features < 0)
    return table;
  if (table.n_features > options.n_features) {
    // Only now is it known whether the file counts from zero: read again, to say where it goes
    // wrong.
    ReadOptions again = options;
    again.base = table.zero_based ? IndexBase::zero : IndexBase::one;
    const std::int64_t largest = options.n_features - (table.zero_based ? 1 : 0);
    table = {};
    table = detail::Reader<T>(text, again).read(name, largest);
  }
  table.n_features = options.n_features;
  return table;
}

} // namespace bridle::svmlight
