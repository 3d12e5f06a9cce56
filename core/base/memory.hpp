// The one way to large arrays: huge pages, where the system has them. The first touch of an
// ordinary page costs 0.5 to 3 microseconds (for 4 KiB; most of all on virtual machines), a fifth
// of the time to read a text, and scattered reads miss the address cache.
//
//   LargeVector<T>: a std::vector in such memory
//   RawVector<T>:   one whose items are not cleared, for threads to write them first
//   Buffer<T>:      an array that is not cleared, can give back its end, and can be handed over
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace bridle {

// In bytes; infinite where the system does not say.
inline double physical_memory() {
#if defined(_SC_PHYS_PAGES)
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
#else
  return std::numeric_limits<double>::infinity();
#endif
}

// Asks for every cache line of [begin, end), the ones that it begins and ends within included.
// GCC takes a function that only prefetches for one without effect and drops calls of it that it
// has not inlined by then; the empty statement is an effect.
inline void prefetch_lines(const void *begin, const void *end) {
  constexpr uintptr_t line = 64;
  for (uintptr_t at = reinterpret_cast<uintptr_t>(begin) & ~(line - 1);
       at < reinterpret_cast<uintptr_t>(end); at += line)
    __builtin_prefetch(reinterpret_cast<const void *>(at));
  asm volatile("");
}

// Memory for n items that std::free and std::realloc know.
template <class T> T *allocate(size_t n) {
  [[maybe_unused]] constexpr size_t page = size_t{2} << 20;
  constexpr size_t most = std::numeric_limits<size_t>::max() / 2;
  if (n > most / sizeof(T))
    throw std::bad_array_new_length();
  const size_t bytes = std::max<size_t>(n, 1) * sizeof(T);
  void *memory = nullptr;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (bytes >= 2 * page) {
    if (posix_memalign(&memory, page, bytes) != 0)
      throw std::bad_alloc();
    (void)madvise(memory, bytes, MADV_HUGEPAGE); // a wish: it works without
    return static_cast<T *>(memory);
  }
#endif
  memory = std::malloc(bytes);
  if (!memory)
    throw std::bad_alloc();
  return static_cast<T *>(memory);
}

template <class T> struct HugePages {
  using value_type = T;

  HugePages() = default;
  template <class Other> HugePages(const HugePages<Other> &) {}

  T *allocate(size_t n) { return bridle::allocate<T>(n); }
  void deallocate(T *memory, size_t) { std::free(memory); }

  template <class Other> bool operator==(const HugePages<Other> &) const { return true; }
};

template <class T> using LargeVector = std::vector<T, HugePages<T>>;

// Items that are made without a value get none.
template <class T> struct Uncleared : HugePages<T> {
  template <class Other> struct rebind {
    using other = Uncleared<Other>;
  };

  Uncleared() = default;
  template <class Other> Uncleared(const Uncleared<Other> &) {}

  template <class Item> void construct(Item *at) { ::new (static_cast<void *>(at)) Item; }
  template <class Item, class... From> void construct(Item *at, From &&...from) {
    ::new (static_cast<void *>(at)) Item(std::forward<From>(from)...);
  }
};

template <class T> using RawVector = std::vector<T, Uncleared<T>>;

// Not a std::vector: that would touch every page once more to clear it, and could not give back the
// part that an upper bound overestimated.
template <class T> class Buffer {
public:
  Buffer() = default;
  explicit Buffer(size_t size) : memory_(allocate<T>(size)), size_(size) {}

  T *data() { return memory_.get(); }
  const T *data() const { return memory_.get(); }
  size_t size() const { return size_; }
  explicit operator bool() const { return memory_ != nullptr; }
  T *release() { return memory_.release(); } // for std::free

  void shrink(size_t size) {
    if (size >= size_)
      return;
    size_ = size;
    if (void *moved = std::realloc(memory_.get(), std::max<size_t>(size, 1) * sizeof(T))) {
      (void)memory_.release();
      memory_.reset(static_cast<T *>(moved));
    }
  }

private:
  struct Free {
    void operator()(T *memory) const { std::free(memory); }
  };

  std::unique_ptr<T, Free> memory_;
  size_t size_ = 0;
};

} // namespace bridle
