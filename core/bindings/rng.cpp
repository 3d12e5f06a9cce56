#include "bindings.hpp"

#include "base/rng.hpp"

#include <numeric>
#include <span>

namespace bridle {
namespace {

void fill_permutation(Rng &rng, MutableVector<int64_t> out) {
  std::iota(out.data(), out.data() + out.shape(0), int64_t{0});
  rng.shuffle(std::span(out.data(), out.shape(0)));
}

} // namespace

void bind_rng(nb::module_ &m) {
  nb::class_<Rng>(m, "Rng", "xoshiro256++, the same on every platform.")
      .def(nb::init<uint64_t>(), nb::arg("seed"))
      .def("next", &Rng::next)
      .def(
          "below",
          [](Rng &rng, uint64_t n) {
            if (n == 0)
              throw nb::value_error("n must be at least 1");
            return rng.below(n);
          },
          nb::arg("n"))
      .def("uniform", &Rng::uniform)
      .def("permutation", &fill_permutation, nb::arg("out"), "Fill out with a permutation.");
}

} // namespace bridle
