// A system that gives no more threads, or no more memory: the work is done by fewer threads, and
// std::bad_alloc, in whichever thread, comes out where the work was asked for.
#include "check.hpp"

#include "base/parallel.hpp"
#include "kernel/expand.hpp"
#include "text/reader.hpp"

#include <atomic>
#include <cerrno>
#include <dlfcn.h>
#include <limits>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <string>

namespace {

constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();
std::atomic<int64_t> threads_left{no_limit}, allocations_left{no_limit};

} // namespace

// In place of the system's, for the whole program.
extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*start)(void *), void *argument) {
  using Create = decltype(&pthread_create);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return threads_left.fetch_sub(1) > 0 ? real(thread, attributes, start, argument) : EAGAIN;
}

// Not inline: the compiler would find fault with a free of what new gave.
[[gnu::noinline]] void *operator new(size_t bytes) {
  void *memory = allocations_left.fetch_sub(1) > 0 ? std::malloc(bytes) : nullptr;
  if (!memory)
    throw std::bad_alloc();
  return memory;
}

[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }

using namespace bridle;

// The pool keeps the threads that it got, and asks again for what it lacks.
void work_is_done_by_as_many_threads_as_there_are() {
  for (int64_t had = 0; had < 3; ++had) {
    std::vector<int> done(100, 0);
    std::vector<int64_t> level(8, 0);
    threads_left = 0;
    for_blocks(100, 4, [&](int64_t block) { ++done[block]; });
    CHECK(threads_left < 0); // more were asked for
    threads_left = 1;
    in_rounds(
        20, 8, 4, [&](int64_t round, int64_t block) { CHECK(level[block] == round); },
        [&](int64_t block) { ++level[block]; }, [] {});
    CHECK(threads_left == (had < 2 ? -1 : 0)); // it stands now; and a fourth is not wanted
    CHECK(std::all_of(done.begin(), done.end(), [](int n) { return n == 1; }));
    CHECK(std::all_of(level.begin(), level.end(), [](int64_t n) { return n == 20; }));
  }
  threads_left = 0;
  for_blocks(100, 4, [](int64_t) {});
  CHECK(threads_left == 0); // all that are wanted are there
  threads_left = no_limit;
}

template <class Work> bool throws(Work &&work) {
  try {
    work();
  } catch (const std::runtime_error &) {
    return true;
  }
  return false;
}

// Whoever fails: the caller's thread has the first block or member, helpers have the others.
void an_error_in_any_thread_comes_out() {
  for (const int64_t culprit : {0, 1, 2, 3}) {
    const auto fail_at = [&](int64_t block) {
      if (block == culprit)
        throw std::runtime_error("no");
    };
    CHECK(throws([&] { for_blocks(4, 4, fail_at); }));
    CHECK(throws([&] {
      in_rounds(3, 4, 4, [&](int64_t, int64_t block) { fail_at(block); }, [](int64_t) {}, [] {});
    }));
    CHECK(throws([&] { in_rounds(3, 4, 4, [](int64_t, int64_t) {}, fail_at, [] {}); }));
  }
  CHECK(throws([&] {
    in_rounds(
        3, 4, 4, [](int64_t, int64_t) {}, [](int64_t) {}, [] { throw std::runtime_error("no"); });
  }));
}

// The k-th allocation and all after it fail, for k = 0, 1, ... until the work succeeds.
template <class Work> void survives_lack_of_memory(Work &&work) {
  bool done = false;
  int64_t n_failures = 0;
  for (int64_t allowed = 0; !done; ++allowed) {
    CHECK(allowed < 100000);
    allocations_left = allowed;
    try {
      work();
      done = true;
    } catch (const std::bad_alloc &) {
      ++n_failures;
    }
    allocations_left = no_limit;
  }
  CHECK(n_failures > 0);
}

void lack_of_memory_comes_out_as_bad_alloc() {
  std::string text;
  for (int line = 0; line < 200; ++line)
    text += "1 1:" + std::to_string(line) + " 3:2\n";
  svmlight::ReadOptions options;
  options.chunk_bytes = 64;
  options.n_threads = 3;
  survives_lack_of_memory(
      [&] { CHECK(svmlight::read<float>(text, "data", options).n_rows == 200); });

  const Sample sample(300, 20, 5);
  const auto rows = sample.csr();
  std::vector<double> K(sample.n_rows * sample.n_rows);
  survives_lack_of_memory([&] {
    const Kernel kernel = kernel_from_name("rbf", {1.0, 0.0, 0}, 0.0);
    const FormulaSource<double, CsrRows<float, int32_t>> source(*kernel.formula, kernel.constant,
                                                                rows, sample.squared_norms.data());
    const auto pack = [&](auto chosen, auto &panels) { source.pack(chosen, panels); };
    kernel_matrix<double>(source, sample.n_rows, pack, K.data(), 3);
  });
  // Members of rounds wait for each other: none may stay away.
  const auto allocate = [] { ::operator delete(::operator new(80)); }; // which no compiler elides
  survives_lack_of_memory([&] {
    in_rounds(5, 6, 3, [&](int64_t, int64_t) { allocate(); }, [&](int64_t) { allocate(); }, [] {});
  });
}

int main() {
  work_is_done_by_as_many_threads_as_there_are();
  an_error_in_any_thread_comes_out();
  lack_of_memory_comes_out_as_bad_alloc();
}
