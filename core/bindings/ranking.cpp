#include "bindings.hpp"

#include "structured/ranking/oracle.hpp"

namespace bridle {
namespace {

std::unique_ptr<RankingOracle> ranking_oracle(Vector<int64_t> offsets, Vector<double> grades,
                                              const std::string &loss, int64_t k) {
  const auto n = static_cast<int64_t>(offsets.shape(0)) - 1;
  const int64_t *o = offsets.data();
  if (n < 1 || o[0] != 0 || !std::is_sorted(o, o + n + 1))
    throw nb::value_error("offsets must be a nondecreasing sequence that begins with 0");
  expect_size(grades, o[n], "grades");
  expect_finite(grades, "grades");
  if (k < 1)
    throw nb::value_error("k must be at least 1");
  return std::make_unique<RankingOracle>(o, n, grades.data(), loss, k);
}

void answers(const RankingOracle &oracle, Vector<double> scores, MutableVector<double> coefficients,
             MutableVector<double> losses, MutableVector<double> hinges, int n_threads) {
  expect_size(scores, oracle.n_documents(), "scores");
  expect_size(coefficients, oracle.n_documents(), "coefficients");
  expect_size(losses, oracle.n_queries(), "losses");
  expect_size(hinges, oracle.n_queries(), "hinges");
  expect_finite(scores, "scores"); // sorting needs numbers that can be compared
  const nb::gil_scoped_release release;
  oracle.answers(scores.data(), coefficients.data(), losses.data(), hinges.data(), n_threads);
}

double answer(const RankingOracle &oracle, int64_t q, Vector<double> scores,
              MutableVector<double> coefficients) {
  if (q < 0 || q >= oracle.n_queries())
    throw nb::index_error("there is no such query");
  const auto [begin, end] = oracle.documents(q);
  expect_size(scores, end - begin, "scores");
  expect_size(coefficients, end - begin, "coefficients");
  expect_finite(scores, "scores"); // sorting needs numbers that can be compared
  const nb::gil_scoped_release release;
  return oracle.answer(q, scores.data(), coefficients.data());
}

} // namespace

void bind_ranking(nb::module_ &m) {
  m.attr("ranking_loss_names") = to_tuple(RankingLosses::names());
  nb::class_<RankingOracle>(m, "RankingOracle")
      .def("answers", &answers, nb::arg("scores"), nb::arg("coefficients"), nb::arg("losses"),
           nb::arg("hinges"), nb::arg("n_threads"))
      .def("answer", &answer, nb::arg("query"), nb::arg("scores"), nb::arg("coefficients"));
  m.def("ranking_oracle", &ranking_oracle, nb::arg("offsets"), nb::arg("grades"), nb::arg("loss"),
        nb::arg("k"));
}

} // namespace bridle
