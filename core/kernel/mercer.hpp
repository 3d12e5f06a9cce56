// Mercer kernels: what makes a value K(c, x) of an inner product c.x and the squared norms.
#pragma once

#include "base/named.hpp"
#include "kernel/exp.hpp"

#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

namespace bridle {

struct KernelParameters {
  double gamma, coef0;
  int degree;
};

// `apply` turns the inner products of a row and the sixteen centres of a panel into values, on
// vectors of so many bytes. Its code becomes part of functions for several kinds of machines: it
// must be inline, always.
template <class K>
concept MercerLike = requires(const K &kernel, double norm, const double *norms, double *values) {
  { K::name } -> std::convertible_to<std::string_view>;
  K{KernelParameters{}};
  kernel.template apply<16>(norm, norms, values);
  { kernel.diagonal(norm) } -> std::same_as<double>; // K(x, x) from |x|^2
};

template <class T> [[gnu::always_inline]] inline T power(T base, int exponent) {
  T result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1)
      result *= base;
  return result;
}

// c.x
struct LinearKernel {
  static constexpr std::string_view name = "linear";
  KernelParameters with;

  template <int, class T> [[gnu::always_inline]] void apply(T, const T *, T *) const {}
  double diagonal(double squared_norm) const { return squared_norm; }
};

// exp(-gamma |c - x|^2)
struct RbfKernel {
  static constexpr std::string_view name = "rbf";
  KernelParameters with;

  template <int bytes, class T>
  [[gnu::always_inline]] void apply(T row_norm, const T *centre_norms, T *values) const {
    using Vectors = PanelVectors<T, bytes>;
    using Vector = typename Vectors::Vector;
    const T gamma = static_cast<T>(with.gamma);
    Vectors::each(values, [&](Vector &value, int first) __attribute__((always_inline)) {
      Vector norms;
      std::memcpy(&norms, centre_norms + first, bytes);
      const Vector squared = row_norm + norms - 2 * value;
      value = -gamma * (squared > 0 ? squared : Vector{});
      Vectors::exponential(value);
    });
  }
  double diagonal(double) const { return 1; }
};

// (gamma c.x + coef0)^degree
struct PolyKernel {
  static constexpr std::string_view name = "poly";
  KernelParameters with;

  template <int bytes, class T> [[gnu::always_inline]] void apply(T, const T *, T *values) const {
    using Vectors = PanelVectors<T, bytes>;
    using Vector = typename Vectors::Vector;
    const T gamma = static_cast<T>(with.gamma), coef0 = static_cast<T>(with.coef0);
    Vectors::each(values, [&](Vector &value, int) __attribute__((always_inline)) {
      Vector base = gamma * value + coef0;
      value = Vector{} + 1;
      for (int n = with.degree; n > 0; n >>= 1, base *= base)
        if (n & 1)
          value *= base;
    });
  }
  double diagonal(double squared_norm) const {
    return power(with.gamma * squared_norm + with.coef0, with.degree);
  }
};

// tanh(gamma c.x + coef0)
struct SigmoidKernel {
  static constexpr std::string_view name = "sigmoid";
  KernelParameters with;

  template <int, class T> [[gnu::always_inline]] void apply(T, const T *, T *values) const {
    const T gamma = static_cast<T>(with.gamma), coef0 = static_cast<T>(with.coef0);
    for (int k = 0; k < panel_width; ++k)
      values[k] = std::tanh(gamma * values[k] + coef0);
  }
  double diagonal(double squared_norm) const {
    return std::tanh(with.gamma * squared_norm + with.coef0);
  }
};

template <MercerLike... K> using MercerList = Named<K...>;

// To add a Mercer kernel: a struct like those above, and its name here.
using MercerKernels = MercerList<LinearKernel, RbfKernel, PolyKernel, SigmoidKernel>;
using Formula = MercerKernels::Any;

struct Kernel {
  std::optional<Formula> formula; // none: the rows are the matrix of values
  double constant;                // added to every value (a regularised bias)

  bool precomputed() const { return !formula; }
};

inline Kernel kernel_from_name(std::string_view name, const KernelParameters &parameters,
                               double constant) {
  if (name == "precomputed")
    return {std::nullopt, constant};
  return {MercerKernels::make("kernel", name, parameters), constant};
}

template <MercerLike... Kernels>
double diagonal_value(const std::variant<Kernels...> &formula, double squared_norm) {
  return std::visit([&](const auto &kernel) { return kernel.diagonal(squared_norm); }, formula);
}

// Not by std::visit, whose table of functions nothing is inlined through.
template <int bytes, class T, MercerLike... Kernels>
[[gnu::always_inline]] inline void apply(const std::variant<Kernels...> &formula, T row_norm,
                                         const T *centre_norms, T *values) {
  const auto apply_if = [&](const auto *kernel) __attribute__((always_inline)) {
    if (kernel)
      kernel->template apply<bytes>(row_norm, centre_norms, values);
  };
  (apply_if(std::get_if<Kernels>(&formula)), ...);
}

} // namespace bridle
