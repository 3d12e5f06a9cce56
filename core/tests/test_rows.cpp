#include "check.hpp"

#include "rows/append.hpp"
#include "rows/gram.hpp"
#include "rows/passes.hpp"
#include "rows/product.hpp"

#include <stdexcept>

using namespace bridle;

static_assert(RowsLike<CsrRows<float, int32_t>> && RowsLike<DenseRows<double>>);

template <RowsLike Rows> void passes_equal_plain_loops(const Rows &rows, const Sample &sample) {
  const int64_t m = sample.n_rows, n = sample.n_features;
  std::vector<double> w(n + 1), coefficients(m);
  Rng rng(1);
  for (double &x : w)
    x = rng.uniform() - 0.5;
  for (double &x : coefficients)
    x = rng.below(3) == 0 ? 0.0 : rng.uniform() - 0.5;
  std::vector<double> expected_scores(m), expected_sum(n + 1), expected_gram((n + 1) * (n + 1));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j <= n; ++j) {
      const double x = j < n ? sample.dense[i * n + j] : rows.bias;
      expected_scores[i] += x * w[j];
      expected_sum[j] += x * coefficients[i];
      for (int64_t k = 0; k <= j; ++k)
        expected_gram[j * (n + 1) + k] +=
            coefficients[i] * x * (k < n ? sample.dense[i * n + k] : rows.bias);
    }
  for (const int n_threads : {1, 3}) {
    std::vector<double> score(m), sum(n + 1), both_score(m), both_sum(n + 1), norms(m);
    std::vector<double> gram((n + 1) * (n + 1));
    scores(rows, w.data(), score.data(), n_threads);
    combine(rows, coefficients.data(), sum.data(), n_threads);
    combine_and_score(rows, coefficients.data(), both_sum.data(), w.data(), both_score.data(),
                      n_threads);
    weighted_gram(rows, coefficients.data(), gram.data(), n_threads);
    CHECK(scan(rows, norms.data(), n_threads).canonical);
    CHECK(score == both_score && sum == both_sum);
    for (int64_t i = 0; i < m; ++i) {
      CHECK(close(score[i], expected_scores[i]));
      CHECK(close(norms[i], sample.squared_norms[i] + rows.bias * rows.bias));
    }
    for (int64_t j = 0; j <= n; ++j)
      CHECK(close(sum[j], expected_sum[j]));
    for (size_t k = 0; k < gram.size(); ++k)
      CHECK(close(gram[k], expected_gram[k]));
  }
}

template <RowsLike Rows>
void products_of_rows_equal_plain_loops(const Rows &rows, const Sample &sample) {
  const int64_t n = sample.n_features;
  for (int64_t i = 0; i < 9; ++i)
    for (int64_t j = 0; j < 9; ++j) {
      double expected = rows.bias * rows.bias;
      for (int64_t k = 0; k < n; ++k)
        expected += sample.dense[i * n + k] * sample.dense[j * n + k];
      CHECK(close(row_product(rows, i, j), expected));
    }
}

void rows_are_copied_behind_others(const Sample &sample) {
  const auto rows = sample.csr();
  const int64_t chosen[] = {3, 1};
  const int64_t n = rows.row_nnz(3) + rows.row_nnz(1);
  std::vector<int64_t> offsets(2);
  std::vector<int32_t> columns(n);
  std::vector<float> values(n);
  append_rows(rows, chosen, 0, offsets.data(), columns.data(), values.data(), n);
  CHECK(offsets[0] == rows.row_nnz(3) && offsets[1] == n);
  CHECK(std::equal(values.begin() + offsets[0], values.end(), rows.values + rows.offsets[1]));
  bool thrown = false;
  try {
    append_rows(rows, chosen, 1, offsets.data(), columns.data(), values.data(), n);
  } catch (const std::invalid_argument &) {
    thrown = true;
  }
  CHECK(thrown);
}

int main() {
  const Sample sample(300, 37, 5);
  for (const double bias : {0.0, 1.5}) {
    passes_equal_plain_loops(sample.csr(bias), sample);
    passes_equal_plain_loops(sample.full(bias), sample);
  }
  products_of_rows_equal_plain_loops(sample.csr(0.5), sample);
  products_of_rows_equal_plain_loops(sample.full(0.5), sample);
  rows_are_copied_behind_others(sample);
}
