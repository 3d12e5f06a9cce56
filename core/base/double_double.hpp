// Sums with twice the digits: a pair of doubles whose sum is the value (Dekker, 1971; Ogita, Rump &
// Oishi, "Accurate sum and dot product", 2005). A sum of n products comes out with an error of at
// most u |sum| + (n u)^2 sum |products|, but for products that underflow.
#pragma once

#include <cmath>

namespace bridle {

struct DoubleDouble {
  double high = 0, low = 0;

  void add(double term, double rest) {
    const double sum = high + term, shifted = sum - high;
    low += ((high - (sum - shifted)) + (term - shifted)) + rest;
    high = sum;
  }
  // a b, where what rounding takes from the product is computed, too.
  void add_product(double a, double b) {
    const double product = a * b;
    add(product, product_rest(a, b, product));
  }
  DoubleDouble &operator+=(const DoubleDouble &other) {
    add(other.high, other.low);
    return *this;
  }
  double value() const { return high + low; }

private:
  static double product_rest(double a, double b, double product) {
#ifdef FP_FAST_FMA
    return std::fma(a, b, -product);
#else
    const double a_high = upper_half(a), b_high = upper_half(b);
    const double a_low = a - a_high, b_low = b - b_high;
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
  }
  // The first 26 bits.
  static double upper_half(double x) {
    const double shifted = 134217729.0 * x;
    return shifted - (shifted - x);
  }
};

} // namespace bridle
