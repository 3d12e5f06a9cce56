// A text, cut into chunks of whole lines.
#pragma once

#include "text/chunk_parser.hpp"
#include "text/numbers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace bridle::svmlight::detail {

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

} // namespace bridle::svmlight::detail
