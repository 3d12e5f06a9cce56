// What is read from an svmlight text, how, and what goes wrong.
#pragma once

#include "base/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>

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

} // namespace bridle::svmlight
