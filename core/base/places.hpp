// Threads that the pool did not start, but that call what is written with it: of Python, each with
// work of its own. All of them together are to have no more than so many threads at work, the
// pool's helpers included: each takes a place while it works, and what is left is for their crews.
#pragma once

#include "base/pool.hpp"

#include <cstdint>
#include <utility>

namespace bridle {

class Places {
public:
  // Within a crew's work, those that it was allowed and has not used.
  explicit Places(int64_t n) : own_(n), left_(spare_here ? spare_here : &own_) {}
  Places(const Places &) = delete;
  Places &operator=(const Places &) = delete;

private:
  friend class Place;
  Spare own_;
  Spare *left_;
};

// From `take` to `leave`, which are of one thread.
class Place {
public:
  explicit Place(Places &places) : left_(places.left_) {}
  Place(const Place &) = delete;
  Place &operator=(const Place &) = delete;

  void take() {
    --*left_;
    Pool::instance().take(0, 1, true);
    before_ = std::exchange(spare_here, left_);
  }
  void leave() {
    spare_here = before_;
    Pool::instance().give_back(nullptr, 0, true);
    ++*left_;
  }

private:
  Spare *left_, *before_ = nullptr;
};

} // namespace bridle
