// Memory for large arrays in huge pages, where the system has them: the first touch of an ordinary
// page costs 0.5 to 3 microseconds (for 4 KiB; most of all on virtual machines), and scattered
// reads miss the address cache.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace bridle {

template <class T> struct HugePages {
  using value_type = T;

  HugePages() = default;
  template <class Other> HugePages(const HugePages<Other> &) {}

  T *allocate(size_t n) {
    if (n > static_cast<size_t>(-1) / sizeof(T) - page)
      throw std::bad_array_new_length();
    const size_t bytes = n * sizeof(T);
    if (bytes < smallest)
      return static_cast<T *>(::operator new(bytes));
    void *memory = ::operator new(bytes, std::align_val_t{page});
#if defined(MADV_HUGEPAGE)
    madvise(memory, bytes, MADV_HUGEPAGE); // a wish: it works without
#endif
    return static_cast<T *>(memory);
  }

  void deallocate(T *memory, size_t n) {
    if (n * sizeof(T) < smallest)
      ::operator delete(memory);
    else
      ::operator delete(memory, std::align_val_t{page});
  }

  template <class Other> bool operator==(const HugePages<Other> &) const { return true; }

private:
  static constexpr size_t page = 1 << 21, smallest = 2 * page;
};

template <class T> using LargeVector = std::vector<T, HugePages<T>>;

} // namespace bridle
