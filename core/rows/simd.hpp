// What is done to every sparse row of float32 values and 32-bit columns, on vectors. Written by
// hand, since compilers leave the end of a row, which is all of a short one, to scalar code.
//
//   gather_dot: sum_k values[k] w[columns[k]]; a third less time than with scalar loads
//   exact_dot:  the same in float64, where no product is rounded
//   scan_row:   sum_k values[k]^2, and whether the columns strictly increase
#pragma once

#include "base/cpu.hpp"

#include <cstdint>

namespace bridle {

struct RowFacts {
  double squared_norm;
  bool increasing;
};

template <class Value, class Column>
inline RowFacts scalar_scan_row(const Value *values, const Column *columns, int64_t n) {
  // Without a way out of the loop, so that it can be done on vectors.
  int decreases = 0;
  for (int64_t k = 1; k < n; ++k)
    decreases |= columns[k] <= columns[k - 1];
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t k = 0; k < n; ++k)
    sum += static_cast<double>(values[k]) * static_cast<double>(values[k]);
  return {sum, !decreases};
}

// Four sums break the chain of dependent additions.
template <class W, class Value, class Column>
inline W scalar_dot(const Value *values, const Column *columns, int64_t n, const W *w) {
  W s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  int64_t k = 0;
  for (; k + 4 <= n; k += 4) {
    s0 += static_cast<W>(values[k]) * w[columns[k]];
    s1 += static_cast<W>(values[k + 1]) * w[columns[k + 1]];
    s2 += static_cast<W>(values[k + 2]) * w[columns[k + 2]];
    s3 += static_cast<W>(values[k + 3]) * w[columns[k + 3]];
  }
  for (; k < n; ++k)
    s0 += static_cast<W>(values[k]) * w[columns[k]];
  return (s0 + s1) + (s2 + s3);
}

#ifdef BRIDLE_X86

BRIDLE_V4 inline float dot_v4(const float *values, const int32_t *columns, int64_t n,
                              const float *w) {
  __m512 sum = _mm512_setzero_ps();
  int64_t k = 0;
  for (; k + 16 <= n; k += 16)
    sum = _mm512_fmadd_ps(_mm512_loadu_ps(values + k),
                          _mm512_i32gather_ps(_mm512_loadu_si512(columns + k), w, 4), sum);
  if (k < n) {
    const auto rest = static_cast<__mmask16>((1u << (n - k)) - 1);
    const __m512i at = _mm512_maskz_loadu_epi32(rest, columns + k);
    const __m512 weights = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), rest, at, w, 4);
    sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(rest, values + k), weights, sum);
  }
  return _mm512_reduce_add_ps(sum);
}

BRIDLE_V3 inline float dot_v3(const float *values, const int32_t *columns, int64_t n,
                              const float *w) {
  __m256 sum = _mm256_setzero_ps();
  int64_t k = 0;
  for (; k + 8 <= n; k += 8) {
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(columns + k));
    sum = _mm256_fmadd_ps(_mm256_loadu_ps(values + k), _mm256_i32gather_ps(w, at, 4), sum);
  }
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  half = _mm_add_ss(half, _mm_movehdup_ps(half));
  return _mm_cvtss_f32(half) + scalar_dot(values + k, columns + k, n - k, w);
}

BRIDLE_V4 inline double exact_dot_v4(const float *values, const int32_t *columns, int64_t n,
                                     const double *w) {
  __m512d sum = _mm512_setzero_pd();
  int64_t k = 0;
  for (; k + 8 <= n; k += 8) {
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(columns + k));
    sum = _mm512_fmadd_pd(_mm512_cvtps_pd(_mm256_loadu_ps(values + k)),
                          _mm512_i32gather_pd(at, w, 8), sum);
  }
  if (k < n) {
    const auto rest = static_cast<__mmask8>((1u << (n - k)) - 1);
    const __m256i at = _mm256_maskz_loadu_epi32(rest, columns + k);
    const __m512d weights = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), rest, at, w, 8);
    sum = _mm512_fmadd_pd(_mm512_cvtps_pd(_mm256_maskz_loadu_ps(rest, values + k)), weights, sum);
  }
  return _mm512_reduce_add_pd(sum);
}

BRIDLE_V4 inline RowFacts scan_row_v4(const float *values, const int32_t *columns, int64_t n) {
  __m512d low = _mm512_setzero_pd(), high = low;
  __mmask16 decreases = 0;
  for (int64_t k = 0; k < n; k += 16) {
    const auto here = static_cast<__mmask16>(n - k >= 16 ? 0xffff : (1u << (n - k)) - 1);
    const auto follows = static_cast<__mmask16>(k > 0 ? here : here & 0xfffe);
    const __m512i at = _mm512_maskz_loadu_epi32(here, columns + k);
    const __m512i before = _mm512_maskz_loadu_epi32(follows, columns + k - 1);
    decreases |= _mm512_mask_cmple_epi32_mask(follows, at, before);
    const __m512 x = _mm512_maskz_loadu_ps(here, values + k);
    const __m512d first = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    const __m512d second =
        _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)));
    low = _mm512_fmadd_pd(first, first, low);
    high = _mm512_fmadd_pd(second, second, high);
  }
  return {_mm512_reduce_add_pd(_mm512_add_pd(low, high)), decreases == 0};
}

inline const auto gather_dot = widest(scalar_dot<float, float, int32_t>, dot_v3, dot_v4);
inline const auto exact_dot =
    widest(scalar_dot<double, float, int32_t>, scalar_dot<double, float, int32_t>, exact_dot_v4);
inline const auto scan_row =
    widest(scalar_scan_row<float, int32_t>, scalar_scan_row<float, int32_t>, scan_row_v4);

#else

inline constexpr auto *gather_dot = scalar_dot<float, float, int32_t>;
inline constexpr auto *exact_dot = scalar_dot<double, float, int32_t>;
inline constexpr auto *scan_row = scalar_scan_row<float, int32_t>;

#endif

} // namespace bridle
