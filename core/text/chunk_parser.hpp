// One chunk of whole lines, parsed straight into its place in the table.
#pragma once

#include "base/cpu.hpp"
#include "text/numbers.hpp"
#include "text/table.hpp"
#include "text/usual_features.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

namespace bridle::svmlight::detail {

struct Failure {
  const char *at = nullptr;
  std::string expected;
  std::string remark; // what else helps, after what was found
};

template <class T> struct Output {
  double *labels = nullptr;
  std::int32_t *lengths = nullptr; // non-zeros of every row
  std::int64_t *qids = nullptr;    // null: ignore them
  std::int32_t *indices = nullptr;
  T *values = nullptr;
};

struct Limits {
  std::int64_t smallest = 0; // as written in the file
  std::int64_t largest = kMaxIndex;
};

template <class T> class ChunkParser {
public:
  // `shift` is what turns an index as written into a column. [begin, end) ends in a newline. What
  // is from `text` to begin may be read, too.
  ChunkParser(const char *text, const char *begin, const char *end, Output<T> out, Limits limits,
              std::int32_t shift)
      : text_(text), p_(begin), end_(end), out_(out), limits_(limits), shift_(shift) {}

  // False: failure() says why.
  bool run() {
    while (p_ != end_)
      if (!line())
        return false;
    return true;
  }

  std::int64_t n_rows() const { return n_rows_; }
  std::int64_t n_nonzero() const { return n_nonzero_; }
  std::int64_t smallest_index() const { return smallest_; } // as written
  std::int64_t largest_index() const { return largest_; }   // as written; -1 if there is none
  const Failure &failure() const { return failure_; }

private:
  void skip_blanks() {
    while (is_blank(*p_))
      ++p_;
  }

  void skip_line() {
    if (*p_ == '\n') {
      ++p_;
      return;
    }
    const void *newline = std::memchr(p_, '\n', static_cast<std::size_t>(end_ - p_));
    p_ = static_cast<const char *>(newline) + 1;
  }

  bool fail(const char *at, std::string expected, std::string remark = {}) {
    failure_ = {at, std::move(expected), std::move(remark)};
    return false;
  }

  bool line() {
    skip_blanks();
    if (*p_ == '\n' || *p_ == '#') {
      skip_line();
      return true;
    }
    if (!label() || !qid() || !features())
      return false;
    skip_line();
    ++n_rows_;
    return true;
  }

  bool label() {
    const char *const begin = p_;
    double &number = out_.labels[n_rows_];
    if (const char *after = read_common_number(begin, number)) {
      p_ = after;
      return true;
    }
    const char *const end = token_end(begin);
    switch (read_any_number(begin, end, number)) {
    case NumberState::good:
      p_ = end;
      return true;
    case NumberState::not_finite:
      return fail(begin, "a finite label");
    case NumberState::malformed:
      break;
    }
    const std::string_view token(begin, static_cast<std::size_t>(end - begin));
    if (token.find(':') != token.npos)
      return fail(begin, "a label before the features");
    if (token.find(',') != token.npos)
      return fail(begin, "a single label", "several labels in a row are not supported");
    return fail(begin, "a label (a number)");
  }

  bool qid() {
    skip_blanks();
    if (*p_ != 'q' || std::memcmp(p_, "qid:", 4) != 0)
      return out_.qids == nullptr || fail(p_, "qid:");
    const char *const begin = p_;
    const char *const end = token_end(begin);
    std::int64_t number = -1;
    const auto result = std::from_chars(begin + 4, end, number);
    if (result.ec != std::errc() || result.ptr != end || number < 0)
      return fail(begin, "qid: and an integer from 0 to 9223372036854775807");
    if (out_.qids)
      out_.qids[n_rows_] = number;
    p_ = end;
    return true;
  }

  bool features() {
    skip_blanks();
    const char *const begin = p_;
    RowSoFar<T> row{out_.indices + n_nonzero_, out_.values + n_nonzero_, shift_};
    const bool on_vectors = has_usual_features() && begin - text_ >= kReadBack;
    const char *p = begin; // in a register: the loop is bound by the latency of this pointer
    for (;;) {
      if (on_vectors)
        p = usual_features(p, end_, delimiters_, row);
      const DigitRun run = read_digits(p);
      auto index = static_cast<std::int64_t>(run.value);
      if (run.length - 1 < 7 && p[run.length] == ':') [[likely]] {
        p += run.length + 1;
      } else {
        p_ = p;
        skip_blanks();
        if (*p_ == '\n' || *p_ == '#')
          break;
        if (!any_index(index))
          return false;
        p = p_;
      }
      double number;
      T &value = row.values[row.count];
      if (const char *after = read_common_number(p, number)) [[likely]] {
        p = after;
        value = static_cast<T>(number);
      } else {
        p_ = p;
        if (!any_value(value))
          return false;
        p = p_;
      }
      row.indices[row.count++] = static_cast<std::int32_t>(index) - shift_;
      if (*p == ' ') [[likely]]
        ++p;
    }
    if (row.count == 0) {
      out_.lengths[n_rows_] = 0;
      return true;
    }
    if (!row.ascending() && !sort_row(row.indices, row.values, row.count, begin))
      return false;
    return finish_row(row.indices, row.count, begin);
  }

  // The index of an unusual feature: eight digits or more, or something wrong.
  bool any_index(std::int64_t &index) {
    const char *const begin = p_;
    const char *digit = begin;
    index = 0;
    for (; is_digit(*digit); ++digit)
      index = std::min<std::int64_t>(index * 10 + (*digit - '0'), kMaxIndex + 1);
    if (digit == begin && std::memcmp(begin, "qid:", 4) == 0)
      return fail(begin, "index:value", "qid must come once, before the features");
    if (*begin == '-' && is_digit(begin[1]))
      return fail(begin, "an index that is not negative");
    if (digit == begin || *digit != ':')
      return fail(begin, "index:value");
    if (index > kMaxIndex)
      return fail(begin, "an index of at most " + std::to_string(kMaxIndex));
    p_ = digit + 1;
    return true;
  }

  [[gnu::noinline]] bool any_value(T &out) {
    const char *const begin = p_;
    const char *const end = token_end(begin);
    double number = 0.0;
    switch (read_any_number(begin, end, number)) {
    case NumberState::good:
      break;
    case NumberState::not_finite:
      return fail(begin, "a finite value");
    case NumberState::malformed:
      return fail(begin, "a value (a number)");
    }
    if (std::abs(number) > static_cast<double>(std::numeric_limits<T>::max())) {
      // What rounds to the largest float is still within range.
      if (!(rounds_to_finite(number)))
        return fail(begin, "a value within the range of float32");
      out = number < 0 ? -std::numeric_limits<T>::max() : std::numeric_limits<T>::max();
    } else {
      out = static_cast<T>(number);
    }
    p_ = end;
    return true;
  }

  static bool rounds_to_finite(double number) {
    constexpr double halfway =
        0x1.ffffffp127; // between the largest float and the next power of two
    return std::abs(number) < halfway;
  }

  bool sort_row(std::int32_t *indices, T *values, std::int64_t count, const char *row) {
    scratch_.resize(static_cast<std::size_t>(count));
    for (std::int64_t k = 0; k < count; ++k)
      scratch_[static_cast<std::size_t>(k)] = {indices[k], values[k]};
    std::sort(scratch_.begin(), scratch_.end(),
              [](const auto &a, const auto &b) { return a.first < b.first; });
    for (std::int64_t k = 0; k < count; ++k) {
      std::tie(indices[k], values[k]) = scratch_[static_cast<std::size_t>(k)];
      if (k > 0 && indices[k] == indices[k - 1])
        return fail_at_duplicate(row);
    }
    return true;
  }

  bool finish_row(const std::int32_t *indices, std::int64_t count, const char *row) {
    const std::int64_t first = std::int64_t{indices[0]} + shift_;
    const std::int64_t last = std::int64_t{indices[count - 1]} + shift_;
    if (first < limits_.smallest || last > limits_.largest)
      return fail_at_limit(row);
    smallest_ = std::min(smallest_, first);
    largest_ = std::max(largest_, last);
    out_.lengths[n_rows_] = static_cast<std::int32_t>(count); // indices differ: fewer than 2^31
    n_nonzero_ += count;
    return true;
  }

  // Walks over the features of a row that was already parsed, until `wanted(index)`.
  template <class Wanted> static const char *find_feature(const char *p, Wanted wanted) {
    for (;;) {
      while (is_blank(*p))
        ++p;
      std::int64_t index = 0;
      for (const char *digit = p; *digit != ':'; ++digit)
        index = index * 10 + (*digit - '0');
      if (wanted(index))
        return p;
      p = token_end(p);
    }
  }

  bool fail_at_duplicate(const char *row) {
    std::unordered_set<std::int64_t> seen;
    const char *at =
        find_feature(row, [&](std::int64_t index) { return !seen.insert(index).second; });
    return fail(at, "an index that is not in the row already");
  }

  bool fail_at_limit(const char *row) {
    const char *at = find_feature(row, [&](std::int64_t index) {
      return index < limits_.smallest || index > limits_.largest;
    });
    if (limits_.largest < limits_.smallest)
      return fail(at, "no features");
    return fail(at, "an index from " + std::to_string(limits_.smallest) + " to " +
                        std::to_string(limits_.largest));
  }

  const char *const text_;
  const char *p_;
  const char *const end_;
  const Output<T> out_;
  const Limits limits_;
  const std::int32_t shift_;
  std::int64_t n_rows_ = 0;
  std::int64_t n_nonzero_ = 0;
  std::int64_t smallest_ = kMaxIndex;
  std::int64_t largest_ = -1;
  Failure failure_;
  std::vector<std::pair<std::int32_t, T>> scratch_;
  Delimiters delimiters_; // ahead
};

} // namespace bridle::svmlight::detail
