// Exact oracles of ranking losses: for each query, the output y' that maximises
//
//     Delta(y') - w.psi(y'),   psi(y') = Psi(x, y) - Psi(x, y') = sum_i coefficient_i x_i,
//
// from the documents' scores s_i = w.x_i. All feature maps here are sums of documents, so that an
// answer is one coefficient for each document and a loss. docs/ranking.md has formulas and papers.
#pragma once

#include "base/named.hpp"
#include "base/parallel.hpp"
#include "structured/ranking/average_precision.hpp"
#include "structured/ranking/break_even.hpp"
#include "structured/ranking/f1.hpp"
#include "structured/ranking/ndcg.hpp"
#include "structured/ranking/ndcg_at.hpp"
#include "structured/ranking/pairs.hpp"
#include "structured/ranking/precision.hpp"
#include "structured/ranking/settings.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace bridle {

template <RankingLossLike... L> using RankingLossList = Named<L...>;

// To add a ranking loss: a header with a class like those above, and its name here.
using RankingLosses = RankingLossList<MapLoss, NdcgLoss, NdcgAtLoss, PrecisionLoss, PairsLoss,
                                      PairsSumLoss, RocLoss, F1Loss, BreakEvenLoss>;
using AnyRankingLoss = RankingLosses::Any;

// The oracle of every query of a data set. Queries of one grade only have nothing to be ranked:
// their answer is the truth.
class RankingOracle {
public:
  RankingOracle(const int64_t *offsets, int64_t n_queries, const double *grades,
                const std::string &loss, int64_t k)
      : offsets_(offsets, offsets + n_queries + 1), grades_(grades, grades + offsets[n_queries]),
        mixed_(n_queries),
        loss_(RankingLosses::make("ranking loss", loss, RankingSettings{k, longest_query()})) {
    const bool graded = std::visit([](const auto &l) { return l.graded; }, loss_);
    for (int64_t q = 0; q < n_queries; ++q) {
      const auto begin = grades_.begin() + offsets[q], end = grades_.begin() + offsets[q + 1];
      if (!graded)
        std::transform(begin, end, begin, [](double grade) { return grade > 0 ? 1.0 : 0.0; });
      mixed_[q] = std::adjacent_find(begin, end, std::not_equal_to{}) != end;
    }
  }

  int64_t n_queries() const { return static_cast<int64_t>(mixed_.size()); }
  int64_t n_documents() const { return static_cast<int64_t>(grades_.size()); }
  Range documents(int64_t q) const { return {offsets_[q], offsets_[q + 1]}; }

  // The answer for one query from its documents' scores.
  double answer(int64_t q, const double *scores, double *coefficients) const {
    const Range own = documents(q);
    const int64_t n = own.end - own.begin;
    if (!mixed_[q]) {
      std::fill_n(coefficients, n, 0.0);
      return 0.0;
    }
    return std::visit(
        [&](const auto &loss) {
          return loss.answer(scores, grades_.data() + own.begin, n, coefficients);
        },
        loss_);
  }

  // All answers, and hinges[q] = Delta - w.psi, which is at least 0.
  void answers(const double *scores, double *coefficients, double *losses, double *hinges,
               int n_threads) const {
    for_blocks(n_queries(), n_threads, [&](int64_t q) {
      const auto [begin, end] = documents(q);
      losses[q] = answer(q, scores + begin, coefficients + begin);
      double score = 0;
      for (int64_t i = begin; i < end; ++i)
        score += coefficients[i] * scores[i];
      hinges[q] = losses[q] - score;
    });
  }

private:
  int64_t longest_query() const {
    int64_t longest = 0;
    for (size_t q = 0; q + 1 < offsets_.size(); ++q)
      longest = std::max(longest, offsets_[q + 1] - offsets_[q]);
    return longest;
  }

  std::vector<int64_t> offsets_;
  std::vector<double> grades_;
  std::vector<char> mixed_;
  AnyRankingLoss loss_;
};

} // namespace bridle
