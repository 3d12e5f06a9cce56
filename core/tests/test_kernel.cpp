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
    const auto pack = [&](auto chosen, auto &panels) { source.pack(chosen, panels); };
    kernel_matrix<double>(source, m, pack, K.data(), 2);
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
    std::vector<double> beta(m, 0.0), scores(m, 0.0), lower(m), upper(m);
    for (int64_t i = 0; i < m; ++i)
      lower[i] = std::min(0.0, sample.y[i]), upper[i] = std::max(0.0, sample.y[i]);
    const SmoDual dual{sample.y.data(), lower.data(), upper.data(), nullptr, 0.0, free_bias};
    SmoOn<double> smo(make_source<double>(kernel, rows, sample.squared_norms.data()), dual,
                      beta.data(), scores.data(), 16, 1 << 20, 2);
    SmoReport report{};
    for (int k = 0; k < 50 && !report.stuck; ++k) {
      report = smo.run(10);
      smo.unshrink();
    }
    CHECK(report.gap <= 1e-6 * report.dual);
    smo.coefficients(beta.data());
    double balance = 0;
    for (int64_t i = 0; i < m; ++i) {
      CHECK(beta[i] >= lower[i] && beta[i] <= upper[i]);
      balance += beta[i];
    }
    if (free_bias)
      CHECK(std::abs(balance) <= 1e-9);
  }
}

// F and D of a working set follow its variables, though these meet their bounds and the kink.
void a_working_set_knows_where_it_is(const Sample &sample, bool free_bias, double tube) {
  const int64_t q = 8, n = sample.n_features;
  Rng rng(9);
  for (int draw = 0; draw < 50; ++draw) {
    WorkingSet set;
    set.resize(q);
    set.tube = tube;
    set.K.assign(q * q, 0.0);
    for (int64_t i = 0; i < q; ++i) {
      set.f[i] = 4 * rng.uniform() - 2;
      set.lower[i] = -rng.uniform(), set.upper[i] = rng.uniform();
      set.beta[i] = set.lower[i] + rng.uniform() * (set.upper[i] - set.lower[i]);
      for (int64_t j = 0; j < q; ++j)
        for (int64_t k = 0; k < n; ++k)
          set.K[i * q + j] += sample.dense[i * n + k] * sample.dense[j * n + k];
    }
    const WorkingSet before = set;
    CHECK((free_bias ? set.optimise_pairs() : set.optimise_singles()) > 0);
    double rise = 0;
    for (int64_t i = 0; i < q; ++i) {
      CHECK(set.beta[i] >= set.lower[i] && set.beta[i] <= set.upper[i]);
      double f = before.f[i];
      for (int64_t j = 0; j < q; ++j)
        f += set.K[i * q + j] * (set.beta[j] - before.beta[j]);
      CHECK(close(set.f[i], f));
      rise -= 0.5 * (set.beta[i] - before.beta[i]) * (before.f[i] + f);
      rise -= tube * (std::abs(set.beta[i]) - std::abs(before.beta[i]));
    }
    CHECK(close(set.dual, rise));
  }
}

// Differences whose squares underflow, and values that are no numbers, choose no pair.
void nothing_is_chosen_of_nothing() {
  for (const double f : {1e-200, std::nan("")}) {
    WorkingSet set;
    set.resize(2);
    set.lower = {0, -1}, set.upper = {1, 0}, set.f = {-1e-200, f};
    set.K = {1, 0, 0, 1};
    set.optimise_pairs();
    CHECK(set.beta[0] == 0 && set.beta[1] == 0);
    set.f = {-1, 1};
    set.K = {std::nan(""), 0, 0, std::nan("")};
    set.optimise_singles();
    CHECK(set.beta[0] >= 0 && set.beta[0] <= 1);
  }
}

int main() {
  const Sample sample(70, 12, 8);
  values_equal_formulas(sample.csr(), sample);
  values_equal_formulas(sample.full(), sample);
  a_given_matrix_gets_the_constant(sample);
  smo_reaches_the_optimum(sample);
  for (const double tube : {0.0, 0.3})
    for (const bool free_bias : {false, true})
      a_working_set_knows_where_it_is(sample, free_bias, tube);
  nothing_is_chosen_of_nothing();
}
