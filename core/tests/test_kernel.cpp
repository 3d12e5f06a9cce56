#include "check.hpp"

#include "kernel/expand.hpp"
#include "kernel/smo.hpp"

#include <memory>
#include <numeric>

using namespace bridle;

double expected(const std::string &name, const KernelParameters &with, double product,
                double squared_distance) {
  const double affine = with.gamma * product + with.coef0;
  return name == "linear" ? product
         : name == "rbf"  ? std::exp(-with.gamma * squared_distance)
         : name == "poly" ? std::pow(affine, with.degree)
                          : std::tanh(affine);
}

template <RowsLike Rows> void values_equal_formulas(const Rows &rows, const Sample &sample) {
  const int64_t m = sample.n_rows, n = sample.n_features;
  const KernelParameters with{0.7, 0.3, 3};
  for (const std::string &name : MercerKernels::names()) {
    const Kernel kernel = kernel_from_name(name, with, 0.25);
    const FormulaSource<double, Rows> source(*kernel.formula, kernel.constant, rows,
                                             sample.squared_norms.data());
    std::vector<double> K(m * m);
    kernel_matrix(source, rows, sample.squared_norms.data(), K.data(), 2);
    for (int64_t i = 0; i < m; ++i) {
      CHECK(close(source.diagonal(i), K[i * m + i]));
      for (int64_t j = 0; j < m; ++j) {
        double product = 0, distance = 0;
        for (int64_t k = 0; k < n; ++k) {
          const double a = sample.dense[i * n + k], b = sample.dense[j * n + k];
          product += a * b;
          distance += (a - b) * (a - b);
        }
        CHECK(close(K[i * m + j], expected(name, with, product, distance) + 0.25, 1e-8));
      }
    }
  }
}

void a_given_matrix_gets_the_constant(const Sample &sample) {
  const int64_t n = sample.n_features;
  const MatrixSource<double, double> source({sample.dense.data(), n, n, 0}, 0.25);
  std::vector<int64_t> all(n);
  std::iota(all.begin(), all.end(), int64_t{0});
  std::vector<double> columns(n * n);
  std::vector<double *> out(n);
  for (int64_t c = 0; c < n; ++c)
    out[c] = columns.data() + c * n;
  Panels<double> panels;
  source.pack(all, panels);
  source.block(panels, all, out.data());
  for (int64_t i = 0; i < n; ++i) {
    CHECK(source.diagonal(i) == sample.dense[i * n + i] + 0.25);
    for (int64_t c = 0; c < n; ++c)
      CHECK(out[c][i] == sample.dense[i * n + c] + 0.25);
  }
}

void smo_reaches_the_optimum(const Sample &sample) {
  const int64_t m = sample.n_rows;
  const auto rows = sample.full();
  const Kernel kernel = kernel_from_name("rbf", {1.0, 0.0, 0}, 0.0);
  for (const bool free_bias : {false, true}) {
    std::vector<double> alpha(m, 0.0), scores(m, 0.0);
    SmoOn<double> smo(make_source<double>(kernel, rows, sample.squared_norms.data()),
                      sample.y.data(), alpha.data(), scores.data(), free_bias, 16, 1 << 20, 2);
    SmoReport report{};
    for (int k = 0; k < 50 && !report.stuck; ++k) {
      report = smo.run(10);
      smo.unshrink();
    }
    CHECK(report.gap <= 1e-6 * report.dual);
    smo.alpha(alpha.data());
    double balance = 0;
    for (int64_t i = 0; i < m; ++i) {
      CHECK(alpha[i] >= 0 && alpha[i] <= 1);
      balance += alpha[i] * sample.y[i];
    }
    if (free_bias)
      CHECK(std::abs(balance) <= 1e-9);
  }
}

// F and D of a working set follow its alpha, though variables meet both of their bounds.
void a_working_set_knows_where_it_is(const Sample &sample, bool free_bias) {
  const int64_t q = 8, n = sample.n_features;
  Rng rng(9);
  for (int draw = 0; draw < 50; ++draw) {
    WorkingSet set;
    set.resize(q);
    set.K.assign(q * q, 0.0);
    for (int64_t i = 0; i < q; ++i) {
      set.a[i] = rng.uniform(), set.cost[i] = 1, set.f[i] = 2 * rng.uniform() - 1;
      set.y[i] = rng.uniform() < 0.5 ? 1 : -1;
      for (int64_t j = 0; j < q; ++j)
        for (int64_t k = 0; k < n; ++k)
          set.K[i * q + j] += sample.dense[i * n + k] * sample.dense[j * n + k];
    }
    const WorkingSet before = set;
    CHECK((free_bias ? set.optimise_pairs() : set.optimise_singles()) > 0);
    double rise = 0;
    for (int64_t i = 0; i < q; ++i) {
      CHECK(set.a[i] >= 0 && set.a[i] <= 1);
      double f = before.f[i];
      for (int64_t j = 0; j < q; ++j)
        f += set.K[i * q + j] * set.y[j] * (set.a[j] - before.a[j]);
      CHECK(close(set.f[i], f));
      rise -= 0.5 * set.y[i] * (set.a[i] - before.a[i]) * (before.f[i] + f);
    }
    CHECK(close(set.dual, rise));
  }
}

// Differences whose squares underflow, and values that are no numbers, choose no pair.
void nothing_is_chosen_of_nothing() {
  for (const double f : {1e-200, std::nan("")}) {
    WorkingSet set;
    set.resize(2);
    set.a = {0, 0}, set.y = {1, -1}, set.cost = {1, 1}, set.f = {-1e-200, f};
    set.K = {1, 0, 0, 1};
    set.optimise_pairs();
    CHECK(set.a[0] == 0 && set.a[1] == 0);
    set.f = {-1, 1};
    set.K = {std::nan(""), 0, 0, std::nan("")};
    set.optimise_singles();
    CHECK(set.a[0] >= 0 && set.a[0] <= 1);
  }
}

int main() {
  const Sample sample(70, 12, 8);
  values_equal_formulas(sample.csr(), sample);
  values_equal_formulas(sample.full(), sample);
  a_given_matrix_gets_the_constant(sample);
  smo_reaches_the_optimum(sample);
  a_working_set_knows_where_it_is(sample, false);
  a_working_set_knows_where_it_is(sample, true);
  nothing_is_chosen_of_nothing();
}
