// The exponential function of a panel of sixteen numbers.
#pragma once

#include <bit>
#include <cstdint>

namespace bridle {

constexpr int64_t panel_width = 16;

// e^x for x <= 0, sixteen at a time: 2^n times a polynomial in the rest (Cody & Waite). The rest is
// at most ln(2)/2, where degree 6 and 13 are accurate to the last bit or two.
[[gnu::always_inline]] inline void exp_panel(float *x) {
  constexpr float magic = 12582912.0f; // adding it rounds to an integer
  for (int k = 0; k < panel_width; ++k) {
    const float z = x[k] < -87.0f ? -87.0f : x[k];
    const float shifted = z * 1.442695041f + magic;
    const float n = shifted - magic;
    const float r = (z - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const int32_t exponent = std::bit_cast<int32_t>(shifted) << 23;
    x[k] = std::bit_cast<float>(std::bit_cast<int32_t>(p) + exponent);
  }
}

[[gnu::always_inline]] inline void exp_panel(double *x) {
  constexpr double magic = 6755399441055744.0;
  for (int k = 0; k < panel_width; ++k) {
    const double z = x[k] < -700.0 ? -700.0 : x[k];
    const double shifted = z * 1.4426950408889634 + magic;
    const double n = shifted - magic;
    const double r = (z - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const int64_t exponent = std::bit_cast<int64_t>(shifted) << 52;
    x[k] = std::bit_cast<double>(std::bit_cast<int64_t>(p) + exponent);
  }
}

} // namespace bridle
