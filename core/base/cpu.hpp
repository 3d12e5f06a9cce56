// Which instructions the machine at hand has: asked here, once, when the library is loaded, and
// nowhere else. There are three levels, those of the x86-64 ABI; other machines have the first.
//   BRIDLE_V3, BRIDLE_V4: a function written by hand for a level, to be called through `widest`
//   BRIDLE_WIDEST:        a function that the compiler makes for each level, and chooses the same
//                         way, for code that it puts on vectors well by itself; but not under the
//                         thread sanitizer, which has not begun when that choice is made
#pragma once

#include <cstddef> // says whether it is glibc

#if defined(__x86_64__) && defined(__GNUC__)
#define BRIDLE_X86 1
#include <immintrin.h>
#define BRIDLE_V3 __attribute__((target("arch=x86-64-v3")))
#define BRIDLE_V4 __attribute__((target("arch=x86-64-v4")))
#else
#define BRIDLE_V3
#define BRIDLE_V4
#endif

// The choice is made by the dynamic loader, which glibc's can and musl's and Windows's cannot.
#if defined(BRIDLE_X86) && defined(__GLIBC__) && !defined(__clang__) &&                            \
    !defined(__SANITIZE_THREAD__)
#define BRIDLE_WIDEST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BRIDLE_WIDEST
#endif

namespace bridle {

enum class CpuLevel { any, v3, v4 }; // v3: AVX2, FMA, BMI; v4: AVX-512 F, BW, CD, DQ, VL

inline CpuLevel find_cpu_level() {
#ifdef BRIDLE_X86
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                  __builtin_cpu_supports("popcnt");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? CpuLevel::v4 : v3 ? CpuLevel::v3 : CpuLevel::any;
#else
  return CpuLevel::any;
#endif
}

inline const CpuLevel cpu_level = find_cpu_level();

// The version of a function for the present machine. A level without one of its own repeats the
// version below it.
template <class Function> Function *widest(Function *any, Function *v3, Function *v4) {
  return cpu_level == CpuLevel::v4 ? v4 : cpu_level == CpuLevel::v3 ? v3 : any;
}

} // namespace bridle
