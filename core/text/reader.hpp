// The svmlight / LIBSVM text format: a reader that uses every core, and a formatter.
//
//   line    = [label ["qid:" integer] {index ":" value}] ["#" comment]
//   label, value = a finite decimal number;  index = an integer in [0, 2^31 - 2]
//
// The reader makes two passes. The first counts colons and newlines, at memory speed: they bound
// the number of non-zeros and of rows from above, exactly so for most files. The arrays are then
// allocated once, and the second pass parses every chunk straight into its final place. No private
// buffers, no growing and no copy: at its peak the reader holds the text and the result, nothing
// else.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "text/usual_features.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace bridle::svmlight {

enum class IndexBase { detect, zero, one };

struct ReadOptions {
  IndexBase base = IndexBase::detect;
  bool want_qid = false;
  std::int64_t n_features = -1; // -1: as many as were seen
  int n_threads = 1;
  std::size_t chunk_bytes = std::size_t{2}
                            << 20;  // a thread takes as much at a time, cut at a newline
  bool text_is_mapped_file = false; // its pages may be given back once parsed
};

// what() is "name:line:column: expected ..., found ...".
class ParseError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

inline constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max() - 1;

// A malloc'd array that is handed to Python as it is. Not a std::vector: that would touch every
// page once more to clear it, and could not give back the part that the upper bound overestimated.
template <class T> class Buffer {
public:
  Buffer() = default;
  explicit Buffer(std::size_t size) { allocate(size); }

  T *data() { return memory_.get(); }
  const T *data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  T *release() { return memory_.release(); }

  void shrink(std::size_t size) {
    if (size >= size_)
      return;
    size_ = size;
    if (void *moved = std::realloc(memory_.get(), bytes(size))) {
      (void)memory_.release();
      memory_.reset(static_cast<T *>(moved));
    }
  }

private:
  struct Free {
    void operator()(T *memory) const { std::free(memory); }
  };

  static std::size_t bytes(std::size_t size) { return std::max<std::size_t>(size, 1) * sizeof(T); }

  void allocate(std::size_t size) {
    if (size > std::numeric_limits<std::size_t>::max() / (2 * sizeof(T)))
      throw std::bad_alloc();
    memory_.reset(static_cast<T *>(allocate_bytes(bytes(size))));
    if (!memory_)
      throw std::bad_alloc();
    size_ = size;
  }

  // Huge pages: first-touch faults on 4 KiB pages would otherwise cost a fifth of the reading time.
  static void *allocate_bytes(std::size_t n_bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr std::size_t huge = std::size_t{2} << 20;
    if (n_bytes >= 2 * huge) {
      void *memory = std::aligned_alloc(huge, (n_bytes + huge - 1) / huge * huge);
      if (memory)
        (void)madvise(memory, n_bytes, MADV_HUGEPAGE);
      return memory;
    }
#endif
    return std::malloc(n_bytes);
  }

  std::unique_ptr<T, Free> memory_;
  std::size_t size_ = 0;
};

// CSR rows. indptr is 32-bit unless the number of non-zeros needs more: one of the two is empty.
template <class T> struct Table {
  std::int64_t n_rows = 0;
  std::int64_t n_nonzero = 0;
  std::int64_t n_features = 0;
  bool zero_based = false;
  Buffer<double> labels;
  Buffer<std::int64_t> qids;
  Buffer<std::int32_t> indptr32;
  Buffer<std::int64_t> indptr64;
  Buffer<std::int32_t> indices;
  Buffer<T> values;
};

namespace detail {

// ---------------------------------------------------------------------------------------------
// Numbers, eight bytes at a time. Every text handed to the parser is followed by at least kPadding
// readable bytes, so that a load never has to ask where the text ends.

inline constexpr std::size_t kPadding = 16;

inline std::uint64_t load8(const char *p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  if constexpr (std::endian::native == std::endian::big)
    word = __builtin_bswap64(word);
  return word;
}

// A run of decimal digits within eight bytes: how many there are, and their value.
struct DigitRun {
  unsigned length;
  std::uint64_t value;
};

inline DigitRun read_digits(const char *p) {
  const std::uint64_t word = load8(p) ^ 0x3030303030303030u; // a digit becomes 0..9
  // The top bit of the first byte above 9. Carries only spoil the bytes after it.
  const std::uint64_t stop = ((word + 0x7676767676767676u) | word) & 0x8080808080808080u;
  const auto length = static_cast<unsigned>(std::countr_zero(stop)) >> 3; // 8 if there is none
  std::uint64_t v = length == 0 ? 0 : word << (64 - 8 * length);          // leading zeros
  v = v * 10 + (v >> 8);
  v = ((v & 0x000000FF000000FFu) * 0x000F424000000064u +
       ((v >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u) >>
      32;
  return {length, v & 0xFFFFFFFFu};
}

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') <= 9; }
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool ends_token(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '#';
}

inline const char *token_end(const char *p) {
  while (!ends_token(*p))
    ++p;
  return p;
}

// The usual shapes (123, 0.0123, -1.5, at most 16 digits and no exponent) in a few instructions,
// with one correctly rounded division. Returns the end of the number, or null: read_any_number
// decides.
inline const char *read_common_number(const char *p, double &number) {
  const bool negative = *p == '-';
  if (!is_digit(*p) && (negative || *p == '+'))
    ++p; // a branch, so that the processor runs ahead of the sign
  const auto lead = static_cast<unsigned char>(*p - '0');
  if (lead > 9)
    return nullptr;
  std::uint64_t mantissa;
  unsigned decimals = 0;
  if (p[1] == '.') {
    const DigitRun run = read_digits(p + 2);
    mantissa = lead * kIntegerPowersOfTen[run.length] + run.value;
    decimals = run.length;
    if (run.length == 8) {
      const DigitRun more = read_digits(p + 10);
      mantissa = mantissa * kIntegerPowersOfTen[more.length] + more.value;
      decimals += more.length;
    }
    p += 2 + decimals;
  } else if (ends_token(p[1])) {
    mantissa = lead; // nearly always 1, in binary features
    ++p;
  } else {
    const DigitRun run = read_digits(p);
    mantissa = run.value;
    p += run.length;
  }
  if (!ends_token(*p) || mantissa > kExactInteger)
    return nullptr;
  const double magnitude = static_cast<double>(mantissa) / kPowersOfTen[decimals];
  number = negative ? -magnitude : magnitude;
  return p;
}

enum class NumberState { good, malformed, not_finite };

// Any decimal number that fills [p, end), correctly rounded. What is too small becomes zero.
inline NumberState read_any_number(const char *p, const char *end, double &number) {
  const bool negative = p != end && *p == '-';
  if (p != end && (*p == '-' || *p == '+'))
    ++p;
  const char *const begin = p;
  std::uint64_t mantissa = 0;
  std::int64_t digits = 0;
  std::int64_t width = 0; // digits from the first that is not zero
  std::int64_t exponent = 0;
  const auto take_digits = [&](bool after_point) {
    for (; p != end && is_digit(*p); ++p, ++digits) {
      if (width < 19)
        mantissa = mantissa * 10 + static_cast<unsigned>(*p - '0');
      width += mantissa != 0;
      exponent -= after_point;
    }
  };
  take_digits(false);
  if (p != end && *p == '.') {
    ++p;
    take_digits(true);
  }
  if (digits == 0) {
    const std::string_view rest(begin, static_cast<std::size_t>(end - begin));
    const auto starts_with = [&](const char *word) {
      return rest.size() >= 3 && (rest[0] | 32) == word[0] && (rest[1] | 32) == word[1] &&
             (rest[2] | 32) == word[2];
    };
    return starts_with("nan") || starts_with("inf") ? NumberState::not_finite
                                                    : NumberState::malformed;
  }
  if (p != end && (*p | 32) == 'e') {
    ++p;
    const bool below = p != end && *p == '-';
    if (p != end && (*p == '-' || *p == '+'))
      ++p;
    if (p == end || !is_digit(*p))
      return NumberState::malformed;
    std::int64_t written = 0;
    for (; p != end && is_digit(*p); ++p)
      written = std::min<std::int64_t>(written * 10 + (*p - '0'), 1'000'000'000'000'000);
    exponent += below ? -written : written;
  }
  if (p != end)
    return NumberState::malformed;

  double magnitude = 0.0;
  if (width <= 19 && mantissa <= kExactInteger && exponent >= -22 && exponent <= 22) {
    const double power = kPowersOfTen[static_cast<std::size_t>(std::abs(exponent))];
    magnitude = exponent < 0 ? static_cast<double>(mantissa) / power
                             : static_cast<double>(mantissa) * power;
  } else if (mantissa != 0) {
    const auto result = std::from_chars(begin, end, magnitude);
    if (result.ec == std::errc::result_out_of_range) {
      if (exponent + width > 0) // from_chars does not say on which side
        return NumberState::not_finite;
      magnitude = 0.0;
    }
  }
  number = negative ? -magnitude : magnitude;
  return NumberState::good;
}

// ---------------------------------------------------------------------------------------------
// One chunk of whole lines.

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

inline const bool kOnVectors = has_usual_features();

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
    const bool on_vectors = kOnVectors && begin - text_ >= kReadBack;
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

// ---------------------------------------------------------------------------------------------
// The text, cut into chunks of whole lines.

struct Chunk {
  const char *text;  // where what may be read begins
  const char *begin; // where the parser reads
  std::size_t length;
  std::size_t offset; // within the text
};

// Cuts at newlines. The last lines move to a copy that ends in a newline and in padding, so that
// the parser may rely on both everywhere without a word about the end of the text.
class ChunkedText {
public:
  ChunkedText(std::string_view text, std::size_t chunk_bytes) : text_(text) {
    const std::size_t begin = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; // byte order mark
    const std::size_t tail = tail_begin(begin);
    for (std::size_t from = begin; from < tail;) {
      const std::size_t to = line_end(std::min(from + chunk_bytes, tail) - 1);
      chunks_.push_back({text.data(), text.data() + from, to - from, from});
      from = to;
    }
    last_lines_.assign(text.substr(tail));
    last_lines_ += '\n';
    chunks_.push_back({nullptr, nullptr, last_lines_.size(), tail});
    last_lines_.append(kPadding, '\0');
    chunks_.back().text = chunks_.back().begin = last_lines_.data();
    first_line_ = begin;
  }

  ChunkedText(const ChunkedText &) = delete;
  ChunkedText &operator=(const ChunkedText &) = delete;

  const std::vector<Chunk> &chunks() const { return chunks_; }

  // "name:line:column: expected ..., found ...", with line and column counted from 1, in bytes.
  std::string describe(const std::string &name, const Chunk &chunk, const Failure &failure) const {
    const std::size_t at = chunk.offset + static_cast<std::size_t>(failure.at - chunk.begin);
    const std::string_view before = text_.substr(first_line_, at - first_line_);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t newline = before.rfind('\n');
    const std::size_t column = before.size() - (newline == before.npos ? 0 : newline + 1) + 1;
    std::string message = name + ":" + std::to_string(line) + ":" + std::to_string(column) +
                          ": expected " + failure.expected + ", found " + quote(failure.at);
    return failure.remark.empty() ? message : message + " (" + failure.remark + ")";
  }

private:
  // The start of a line with at least kPadding bytes from there to the end, or `begin`.
  std::size_t tail_begin(std::size_t begin) const {
    if (text_.size() < begin + kPadding + 1)
      return begin;
    const std::size_t newline = text_.rfind('\n', text_.size() - kPadding - 1);
    return newline == text_.npos || newline < begin ? begin : newline + 1;
  }

  std::size_t line_end(std::size_t from) const { return text_.find('\n', from) + 1; }

  // What is at p, if not a token.
  static std::string nothing(const char *p) {
    if (*p == '#')
      return "a comment";
    while (is_blank(*p))
      ++p;
    return *p == '\n' ? "the end of the line" : "a space";
  }

  // The token at p, fit for one line of a terminal whatever it holds.
  static std::string quote(const char *p) {
    constexpr std::ptrdiff_t most = 32;
    const char *const end = token_end(p);
    if (p == end)
      return nothing(p);
    std::string out = "'";
    for (const char *c = p; c != end && c - p < most; ++c) {
      constexpr const char *hex = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(*c);
      if (byte >= 0x20 && byte < 0x7F)
        out += *c;
      else
        (out += "\\x") += {hex[byte >> 4], hex[byte & 15]};
    }
    return out + (end - p > most ? "...'" : "'");
  }

  std::string_view text_;
  std::string last_lines_;
  std::size_t first_line_ = 0;
  std::vector<Chunk> chunks_;
};

struct Counts {
  std::size_t colons = 0;
  std::size_t newlines = 0;
};

inline Counts count(const Chunk &chunk) {
  constexpr std::size_t lanes = 64, most = 255; // a lane counts in one byte
  Counts total;
  const char *p = chunk.begin;
  const char *const end = p + chunk.length;
  while (static_cast<std::size_t>(end - p) >= lanes) {
    std::array<std::uint8_t, lanes> colons{}, newlines{};
    const std::size_t rounds = std::min(static_cast<std::size_t>(end - p) / lanes, most);
    for (std::size_t round = 0; round < rounds; ++round, p += lanes)
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        colons[lane] = static_cast<std::uint8_t>(colons[lane] + (p[lane] == ':'));
        newlines[lane] = static_cast<std::uint8_t>(newlines[lane] + (p[lane] == '\n'));
      }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      total.colons += colons[lane];
      total.newlines += newlines[lane];
    }
  }
  for (; p != end; ++p) {
    total.colons += *p == ':';
    total.newlines += *p == '\n';
  }
  return total;
}

// Unmaps what was parsed: the text stays in the page cache, but no longer counts as our memory.
inline void give_back(const Chunk &chunk) {
#if defined(__linux__)
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(chunk.begin) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(chunk.begin + chunk.length) / page * page;
  if (begin < end)
    (void)madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
#else
  (void)chunk;
#endif
}

// ---------------------------------------------------------------------------------------------
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

// Rows in CSR form, as text.
template <class T, class Index> struct RowsToWrite {
  const Index *indptr = nullptr; // of the first row; offsets into indices and values
  const std::int32_t *indices = nullptr;
  const T *values = nullptr;
  const double *labels = nullptr;
  const std::int64_t *qids = nullptr; // or null
  std::int64_t n_rows = 0;
  int first_index = 1; // 0 or 1
};

namespace detail {
template <class Number> void append_number(std::string &out, Number number) {
  std::array<char, 40> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), result.ptr);
}
} // namespace detail

// The shortest decimals that read back as the same numbers.
template <class T, class Index> std::string format(const RowsToWrite<T, Index> &rows) {
  std::string out;
  for (std::int64_t r = 0; r < rows.n_rows; ++r) {
    detail::append_number(out, rows.labels[r]);
    if (rows.qids) {
      out += " qid:";
      detail::append_number(out, rows.qids[r]);
    }
    for (Index k = rows.indptr[r]; k < rows.indptr[r + 1]; ++k) {
      out += ' ';
      detail::append_number(out, std::int64_t{rows.indices[k]} + rows.first_index);
      out += ':';
      detail::append_number(out, rows.values[k]);
    }
    out += '\n';
  }
  return out;
}

} // namespace bridle::svmlight
