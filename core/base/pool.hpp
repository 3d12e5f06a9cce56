// One standing pool of threads for the whole library.
//
// A `Crew` is the thread that asks and helpers out of the pool, for as long as the crew lives. The
// pool starts threads when they are first wanted and keeps them: they stay awake for 50
// microseconds after their work and then sleep. What does not depend on who works does not depend
// on how many the crew has, and that is as many as there can be:
//
// - of all crews together no more threads are at work than the machine has, or than one asked for;
// - a crew within a crew's work takes of what the outer one was allowed and did not use;
// - where the system gives no more threads, there are fewer: the caller works in any case.
//
// `for_blocks`, `for_ranges` and `in_rounds` in parallel.hpp are what loops are written with.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

// MinGW has the header, but neither forks nor signals of threads.
#if __has_include(<pthread.h>) && !defined(_WIN32)
#define BRIDLE_POSIX 1
#include <pthread.h>
#include <signal.h>
#endif

namespace bridle {

inline int hardware_threads() {
  static const int n = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return n;
}

// How long to stay awake before sleeping. For work that may not come: for times much shorter than
// it takes to put a thread to sleep and to wake it. For others who are at work: longer, and letting
// them have the processor. (If those who wait fell asleep, to wake them would take so long that
// they met the others late, who would fall asleep in their turn.) Not at all where threads are more
// than processors.
enum class Patience { none, idle, working };

// Until the word is no longer `now`. Who changes it does so in sequentially consistent order and
// notifies: with less than that, a notice may miss a thread that is about to sleep.
inline void wait_while(const std::atomic<uint32_t> &word, uint32_t now, Patience patience) {
  using Clock = std::chrono::steady_clock;
  if (patience != Patience::none) {
    const auto begin = Clock::now();
    auto waited = Clock::duration::zero();
    do {
      for (int spin = 0; spin < 64; ++spin) {
        if (word.load(std::memory_order_acquire) != now)
          return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
      }
      waited = Clock::now() - begin;
      if (waited > std::chrono::microseconds(50)) {
        if (patience == Patience::idle)
          break;
        std::this_thread::yield();
      }
    } while (waited < std::chrono::milliseconds(5));
  }
  word.wait(now, std::memory_order_acquire);
}

// The threads that the crews within a crew may still add to it.
using Spare = std::atomic<int64_t>;
inline thread_local Spare *spare_here = nullptr; // none: this thread works in no crew

// A function of the number of a member of a crew.
struct MemberWork {
  void (*call)(const void *, int64_t) = nullptr;
  const void *work = nullptr;
  Spare *spare = nullptr;
  Patience patience = Patience::idle; // for the next work
};

// A thread that waits for work, over and over.
class alignas(64) Helper {
public:
  Helper *next = nullptr; // in a crew, or among those that have no work

  Helper() : thread_([this] { serve(); }) {}
  ~Helper() {
    start({}, 0);
    thread_.join();
  }

  void start(const MemberWork &work, int64_t member) {
    work_ = work;
    member_ = member;
    advance();
  }
  void finish(Patience patience) {
    for (uint32_t turn; (turn = turn_.load(std::memory_order_acquire)) % 2 == 1;)
      wait_while(turn_, turn, patience);
  }

private:
  void serve() {
    for (Patience patience = Patience::idle;;) {
      for (uint32_t turn; (turn = turn_.load(std::memory_order_acquire)) % 2 == 0;)
        wait_while(turn_, turn, patience);
      if (!work_.call)
        return;
      spare_here = work_.spare;
      work_.call(work_.work, member_);
      patience = work_.patience; // the next work may be written from now on
      advance();
    }
  }
  void advance() {
    turn_.fetch_add(1);
    turn_.notify_all();
  }

  std::atomic<uint32_t> turn_{0}; // odd: there is work, or it is being done
  MemberWork work_;
  int64_t member_ = 0;
  std::thread thread_; // last: it uses the others
};

// Signals are for the threads that the program has started itself; those of faults stay.
class SignalsHeld {
public:
#if BRIDLE_POSIX
  SignalsHeld() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
      sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
  sigset_t before_;
#endif
};

class Pool {
public:
  // It is never destroyed: at exit, its threads sleep.
  static Pool &instance() {
    Pool *pool = current().load();
    if (pool)
      return *pool;
    [[maybe_unused]] static const bool watched = watch_forks();
    auto fresh = std::make_unique<Pool>();
    return current().compare_exchange_strong(pool, fresh.get()) ? *fresh.release() : *pool;
  }

  // A list of up to n helpers for a call that asked for n_threads. It starts threads where there
  // are too few. outermost: the caller is at work as well, and has not been counted.
  std::pair<Helper *, int64_t> take(int64_t n, int64_t n_threads, bool outermost) {
    const std::lock_guard guard(lock_);
    at_work_ += outermost;
    const int64_t most = std::max<int64_t>(n_threads, hardware_threads());
    n = std::min(n, most - at_work_);
    Helper *crew = nullptr;
    int64_t taken = 0;
    for (; taken < n && (idle_ || start_one()); ++taken) {
      Helper *helper = std::exchange(idle_, idle_->next);
      helper->next = std::exchange(crew, helper);
    }
    at_work_ += taken;
    return {crew, taken};
  }

  void give_back(Helper *crew, int64_t n, bool outermost) {
    const std::lock_guard guard(lock_);
    while (crew) {
      Helper *helper = std::exchange(crew, crew->next);
      helper->next = std::exchange(idle_, helper);
    }
    at_work_ -= n + outermost;
  }

  // Who waits may stay awake: nobody whom it waits for needs its place.
  bool has_room() const { return at_work_ <= hardware_threads(); }

private:
  static std::atomic<Pool *> &current() {
    static std::atomic<Pool *> pool{nullptr};
    return pool;
  }

  bool start_one() {
    try {
      [[maybe_unused]] const SignalsHeld held;
      idle_ = new Helper;
      return true;
    } catch (const std::exception &) { // no thread, or no memory for one
      return false;
    }
  }

  // A child has no threads but the one that forked: it makes a pool of its own. Those that have no
  // work end before, so that a program that uses none of them at the time forks as if it had none.
  static bool watch_forks() {
#if BRIDLE_POSIX
    pthread_atfork(
        [] {
          if (Pool *pool = current().load())
            pool->end_idle();
        },
        nullptr,
        [] {
          current().store(nullptr);
          spare_here = nullptr;
        });
#endif
    return true;
  }

  void end_idle() {
    const std::lock_guard guard(lock_);
    while (idle_)
      delete std::exchange(idle_, idle_->next);
  }

  std::mutex lock_;
  Helper *idle_ = nullptr;
  std::atomic<int64_t> at_work_{0}; // helpers in crews, and who asked for these; by the lock
};

class Crew {
public:
  // Up to n_members, of the n_threads that the caller may use; the others are for crews within.
  Crew(int64_t n_members, int64_t n_threads) : outer_(spare_here) {
    const int64_t wanted = outer_ ? take_of(*outer_, n_members - 1) : n_members - 1;
    std::tie(first_, n_helpers_) = pool_.take(wanted, n_threads, !outer_);
    if (outer_)
      *outer_ += wanted - n_helpers_;
    else
      spare_ = n_threads - 1 - n_helpers_;
  }
  ~Crew() {
    pool_.give_back(first_, n_helpers_, !outer_);
    if (outer_)
      *outer_ += n_helpers_;
  }
  Crew(const Crew &) = delete;
  Crew &operator=(const Crew &) = delete;

  int64_t size() const { return 1 + n_helpers_; }
  Patience patience() const { return pool_.has_room() ? Patience::working : Patience::none; }

  // Calls work(member) for each member at the same time, 0 being the caller; it must not throw.
  template <class Work> void run(const Work &work) {
    static_assert(noexcept(work(int64_t{0})));
    Spare *spare = outer_ ? outer_ : &spare_;
    const MemberWork task{
        [](const void *w, int64_t member) { (*static_cast<const Work *>(w))(member); }, &work,
        spare, pool_.has_room() ? Patience::idle : Patience::none};
    int64_t member = 0;
    for (Helper *helper = first_; helper; helper = helper->next)
      helper->start(task, ++member);
    spare_here = spare;
    work(0);
    spare_here = outer_;
    for (Helper *helper = first_; helper; helper = helper->next)
      helper->finish(patience());
  }

private:
  // As many of n as are left.
  static int64_t take_of(Spare &spare, int64_t n) {
    int64_t left = spare.load(), taken;
    do
      taken = std::clamp<int64_t>(left, 0, n);
    while (!spare.compare_exchange_weak(left, left - taken));
    return taken;
  }

  Pool &pool_ = Pool::instance();
  Spare *outer_;
  Spare spare_{0}; // of the outermost crew
  Helper *first_ = nullptr;
  int64_t n_helpers_ = 0;
};

} // namespace bridle
