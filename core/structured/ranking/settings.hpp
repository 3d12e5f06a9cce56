// What a ranking loss is made of, and what is asked of one.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

namespace bridle {

struct RankingSettings {
  int64_t k;       // documents that a user looks at
  int64_t longest; // documents of the longest query
};

template <class L>
concept RankingLossLike =
    requires(const L &loss, const double *scores, const double *grades, int64_t n, double *out) {
      { L::name } -> std::convertible_to<std::string_view>;
      { L::graded } -> std::convertible_to<bool>; // else a document is relevant, or it is not
      L{RankingSettings{}};
      // Writes the coefficients of psi(y') and returns Delta(y') for the most violated y'.
      { loss.answer(scores, grades, n, out) } -> std::same_as<double>;
    };

} // namespace bridle
