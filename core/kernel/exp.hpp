// Panels of sixteen numbers, and their exponential function.
#pragma once

#include <cstdint>
#include <cstring>

namespace bridle {

constexpr int64_t panel_width = 16;

// e^x = 2^n e^r, |r| <= ln(2)/2, for x <= 0 (Cody & Waite): what it takes for a type of numbers.
template <class T> struct Exponential;

template <> struct Exponential<float> {
  using Bits = int32_t;
  static constexpr int fraction = 23, degree = 6;
  static constexpr float least = -87, magic = 12582912; // adding it rounds to an integer
  static constexpr float log2_e = 1.442695041f, ln2 = 0.693359375f, rest = -2.12194440e-4f;
};

template <> struct Exponential<double> {
  using Bits = int64_t;
  static constexpr int fraction = 52, degree = 13;
  static constexpr double least = -700, magic = 6755399441055744;
  static constexpr double log2_e = 1.4426950408889634, ln2 = 6.93145751953125e-1,
                          rest = 1.42860682030941723212e-6;
};

// A panel as vectors of so many bytes.
template <class T, int bytes> struct PanelVectors {
  typedef T Vector __attribute__((vector_size(bytes)));
  typedef typename Exponential<T>::Bits Bits __attribute__((vector_size(bytes)));
  static constexpr int lanes = bytes / static_cast<int>(sizeof(T));

  // change(vector, first) for all vectors of a panel, in place.
  template <class Change> [[gnu::always_inline]] static void each(T *panel, Change &&change) {
    for (int first = 0; first < panel_width; first += lanes) {
      Vector vector;
      std::memcpy(&vector, panel + first, bytes);
      change(vector, first);
      std::memcpy(panel + first, &vector, bytes);
    }
  }

  // Accurate to the last bit or two.
  [[gnu::always_inline]] static void exponential(Vector &z) {
    using E = Exponential<T>;
    z = z < E::least ? Vector{} + E::least : z;
    const Vector shifted = z * E::log2_e + E::magic;
    const Vector n = shifted - E::magic;
    const Vector r = (z - n * E::ln2) - n * E::rest;
    T factorial = 1;
    for (int i = 2; i <= E::degree; ++i)
      factorial *= static_cast<T>(i);
    z = Vector{} + 1 / factorial;
    for (int i = E::degree; i > 0; --i) {
      factorial /= static_cast<T>(i);
      z = z * r + 1 / factorial;
    }
    z = reinterpret_cast<Vector>(reinterpret_cast<Bits>(z) +
                                 (reinterpret_cast<Bits>(shifted) << E::fraction));
  }
};

} // namespace bridle
