// Passes over rows. They know of no loss: what does is a step.
#include "bindings.hpp"

#include "rows/append.hpp"
#include "rows/careful.hpp"
#include "rows/functions.hpp"
#include "rows/gram.hpp"
#include "rows/judge.hpp"
#include "rows/overlap.hpp"
#include "rows/passes.hpp"
#include "rows/together.hpp"

namespace bridle {
namespace {

void score_rows(const PyRows &rows, Vector<double> w, MutableVector<double> out, int n_threads) {
  expect_size(w, n_weights(rows), "w");
  expect_size(out, n_rows(rows), "out");
  const nb::gil_scoped_release release;
  std::visit([&](const auto &r) { scores(r, w.data(), out.data(), n_threads); }, rows.view());
}

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using MutableMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

Functions functions_of(const PyRows &rows, Matrix weights, Vector<double> constants) {
  const auto n = static_cast<int64_t>(weights.shape(0));
  if (static_cast<int64_t>(weights.shape(1)) != n_weights(rows) - 1)
    throw nb::value_error("a row of weights must have a number for each feature");
  expect_size(constants, n, "constants");
  return {n, weights.data(), constants.data()};
}

void score_rows_by_all(const PyRows &rows, Matrix weights, Vector<double> constants,
                       MutableMatrix out, int n_threads) {
  const Functions all = functions_of(rows, weights, constants);
  expect_size(out, n_rows(rows), "out");
  if (static_cast<int64_t>(out.shape(1)) != all.n)
    throw nb::value_error("out must have a column for each function");
  const nb::gil_scoped_release release;
  std::visit([&](const auto &r) { scores_of_all(r, all, out.data(), n_threads); }, rows.view());
}

void best_of_rows(const PyRows &rows, Matrix weights, Vector<double> constants,
                  MutableVector<int64_t> out, int n_threads) {
  const Functions all = functions_of(rows, weights, constants);
  expect_size(out, n_rows(rows), "out");
  if (all.n == 0)
    throw nb::value_error("there must be a function");
  const nb::gil_scoped_release release;
  std::visit([&](const auto &r) { best_of_all(r, all, out.data(), n_threads); }, rows.view());
}

void combine_rows(const PyRows &rows, Vector<double> coefficients, MutableVector<double> out,
                  int n_threads) {
  expect_size(coefficients, n_rows(rows), "coefficients");
  expect_size(out, n_weights(rows), "out");
  const nb::gil_scoped_release release;
  std::visit([&](const auto &r) { combine(r, coefficients.data(), out.data(), n_threads); },
             rows.view());
}

void combine_and_score_rows(const PyRows &rows, Vector<double> coefficients,
                            MutableVector<double> out, Vector<double> w,
                            MutableVector<double> scores, int n_threads) {
  expect_size(coefficients, n_rows(rows), "coefficients");
  expect_size(out, n_weights(rows), "out");
  expect_size(w, n_weights(rows), "w");
  expect_size(scores, n_rows(rows), "scores");
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &r) {
        combine_and_score(r, coefficients.data(), out.data(), w.data(), scores.data(), n_threads);
      },
      rows.view());
}

void combine_and_score_rows_by_all(const PyRows &rows, Matrix coefficients, MutableMatrix out,
                                   Matrix w, MutableMatrix scores, int n_threads) {
  const auto expect = [&](const auto &table, int64_t width, const char *name) {
    expect_size(table, static_cast<int64_t>(coefficients.shape(0)), name);
    if (static_cast<int64_t>(table.shape(1)) != width)
      refuse(std::string("the rows of ") + name + " are not of the right length");
  };
  expect(coefficients, n_rows(rows), "coefficients");
  expect(out, n_weights(rows), "out");
  expect(w, n_weights(rows), "w");
  expect(scores, n_rows(rows), "scores");
  const auto n = static_cast<int64_t>(coefficients.shape(0));
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &r) {
        combine_and_score_all(r, n, coefficients.data(), out.data(), w.data(), scores.data(),
                              n_threads);
      },
      rows.view());
}

template <class Term>
void combine_rows_by_all(const PyRows &rows, Matrix coefficients, MutableMatrix out, int n_threads,
                         const Term &term) {
  expect_size(coefficients, n_rows(rows), "coefficients");
  expect_size(out, n_weights(rows), "out");
  if (coefficients.shape(1) != out.shape(1))
    throw nb::value_error("coefficients and out must have a column for each function");
  const auto n = static_cast<int64_t>(out.shape(1));
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &r) {
        combine_of_all(r, coefficients.data(), n, out.data(), n_threads, term);
      },
      rows.view());
}

void combine_values(const PyRows &rows, Matrix coefficients, MutableMatrix out, int n_threads) {
  combine_rows_by_all(rows, coefficients, out, n_threads, [](double x) { return x; });
}

void combine_squares(const PyRows &rows, Matrix coefficients, MutableMatrix out, int n_threads) {
  combine_rows_by_all(rows, coefficients, out, n_threads, [](double x) { return x * x; });
}

nb::tuple judge(const PyRows &rows, const std::optional<Vector<double>> &own, const PyPerRow &low,
                const PyPerRow &high, Vector<double> signs,
                std::tuple<double, double, double> scales, Vector<double> w,
                MutableVector<double> alpha, MutableVector<double> combined,
                MutableVector<double> scores, int n_threads) {
  const int64_t n = n_rows(rows);
  if (own)
    expect_size(*own, n, "own");
  expect_size(signs, n, "signs");
  expect_size(w, n_weights(rows), "w");
  expect_size(alpha, n, "alpha");
  expect_size(combined, n_weights(rows), "combined");
  expect_size(scores, n, "scores");
  const auto [up, down, top] = scales;
  const DualProposal given{own ? own->data() : nullptr,
                           per_row(low, n, "low"),
                           per_row(high, n, "high"),
                           signs.data(),
                           up,
                           down,
                           top};
  const JudgedRows found = [&] {
    const nb::gil_scoped_release release;
    return std::visit(
        [&](const auto &r) {
          return judge_rows(r, given, w.data(), alpha.data(), combined.data(), scores.data(),
                            n_threads);
        },
        rows.view());
  }();
  const DualSums &sums = found.sums;
  return nb::make_tuple(nb::make_tuple(sums.total.sum, sums.total.size), sums.balance, found.moved,
                        found.shifted);
}

double overlap_of(const PyRows &rows) {
  const nb::gil_scoped_release release;
  return std::visit([](const auto &r) { return overlap(r); }, rows.view());
}

void careful_combine_and_score_rows(const PyRows &rows, Vector<double> coefficients,
                                    MutableVector<double> out, Vector<double> w, double shift,
                                    MutableVector<double> scores, int n_threads) {
  expect_size(coefficients, n_rows(rows), "coefficients");
  expect_size(out, n_weights(rows), "out");
  expect_size(w, n_weights(rows), "w");
  expect_size(scores, n_rows(rows), "scores");
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &r) {
        careful_combine_and_score(r, coefficients.data(), out.data(), w.data(), shift,
                                  scores.data(), n_threads);
      },
      rows.view());
}

void weighted_gram_rows(const PyRows &rows, Vector<double> weights,
                        nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out,
                        int n_threads) {
  expect_size(weights, n_rows(rows), "weights");
  expect_size(out, n_weights(rows), "out");
  if (out.shape(0) != out.shape(1))
    throw nb::value_error("out must be square");
  const nb::gil_scoped_release release;
  std::visit([&](const auto &r) { weighted_gram(r, weights.data(), out.data(), n_threads); },
             rows.view());
}

template <class Value, class Column>
void append(const PyRows &rows, Vector<int64_t> chosen, int64_t used,
            MutableVector<int64_t> offsets, MutableVector<Column> columns,
            MutableVector<Value> values) {
  expect_size(offsets, static_cast<int64_t>(chosen.shape(0)), "offsets");
  const auto *from = std::get_if<CsrRows<Value, Column>>(&rows.view());
  const auto capacity = static_cast<int64_t>(std::min(columns.shape(0), values.shape(0)));
  if (!from || used < 0 || used > capacity)
    throw nb::value_error("the arrays are not of the rows' kind");
  const nb::gil_scoped_release release;
  append_rows(*from, std::span(chosen.data(), chosen.shape(0)), used, offsets.data(),
              columns.data(), values.data(), capacity);
}

template <class Value, class Column> void bind_append(nb::module_ &m) {
  m.def("append_rows", &append<Value, Column>, nb::arg("rows"), nb::arg("chosen"), nb::arg("used"),
        nb::arg("offsets").noconvert(), nb::arg("columns").noconvert(),
        nb::arg("values").noconvert(), "Copy the chosen rows behind others.");
}

} // namespace

void bind_rows(nb::module_ &m) {
  m.def("scores", &score_rows, nb::arg("rows"), nb::arg("w"), nb::arg("out"), nb::arg("n_threads"),
        "out[i] = w . x_i");
  m.def("scores_of_all", &score_rows_by_all, nb::arg("rows"), nb::arg("weights"),
        nb::arg("constants"), nb::arg("out"), nb::arg("n_threads"),
        "out[i, k] = weights[k] . x_i + constants[k]");
  m.def("best_of_all", &best_of_rows, nb::arg("rows"), nb::arg("weights"), nb::arg("constants"),
        nb::arg("out"), nb::arg("n_threads"),
        "out[i]: the k for which weights[k] . x_i + constants[k] is largest.");
  m.def("combine", &combine_rows, nb::arg("rows"), nb::arg("coefficients"), nb::arg("out"),
        nb::arg("n_threads"), "out = sum_i coefficients[i] x_i");
  m.def("combine_of_all", &combine_values, nb::arg("rows"), nb::arg("coefficients"), nb::arg("out"),
        nb::arg("n_threads"), "out[j, k] = sum_i coefficients[i, k] x_ij");
  m.def("combine_squares_of_all", &combine_squares, nb::arg("rows"), nb::arg("coefficients"),
        nb::arg("out"), nb::arg("n_threads"), "out[j, k] = sum_i coefficients[i, k] x_ij^2");
  m.def("combine_and_score", &combine_and_score_rows, nb::arg("rows"), nb::arg("coefficients"),
        nb::arg("out"), nb::arg("w"), nb::arg("scores"), nb::arg("n_threads"),
        "Both of the above in one pass over the rows.");
  m.def("combine_and_score_all", &combine_and_score_rows_by_all, nb::arg("rows"),
        nb::arg("coefficients"), nb::arg("out"), nb::arg("w"), nb::arg("scores"),
        nb::arg("n_threads"), "The same for several functions, a row of each table for each.");
  m.def("judge", &judge, nb::arg("rows"), nb::arg("own").none(), nb::arg("low"), nb::arg("high"),
        nb::arg("signs"), nb::arg("scales"), nb::arg("w"), nb::arg("alpha"), nb::arg("combined"),
        nb::arg("scores"), nb::arg("n_threads"),
        "alpha: own inside low..high, scaled where alpha_i y_i is positive and elsewhere, and "
        "towards "
        "high by the last of three scales; "
        "combined = sum_i alpha_i y_i x_i; scores[i] = w . x_i. Returns (sum alpha_i, "
        "sum |alpha_i|), sum alpha_i y_i, how far own went inside, and how far altogether.");
  m.def("careful_combine_and_score", &careful_combine_and_score_rows, nb::arg("rows"),
        nb::arg("coefficients"), nb::arg("out"), nb::arg("w"), nb::arg("shift"), nb::arg("scores"),
        nb::arg("n_threads"), "The same with twice the digits; scores[i] = w . x_i + shift.");
  m.def(
      "overlap", &overlap_of, nb::arg("rows"),
      "How much rows have in common, by some of them: 1/n for n that have nothing, 1 for rows that "
      "are all alike. Without the constant feature.");
  m.def("weighted_gram", &weighted_gram_rows, nb::arg("rows"), nb::arg("weights"), nb::arg("out"),
        nb::arg("n_threads"), "Lower triangle of out += sum_i weights[i] x_i x_i'.");
  bind_append<float, int32_t>(m);
  bind_append<float, int64_t>(m);
  bind_append<double, int32_t>(m);
  bind_append<double, int64_t>(m);
}

} // namespace bridle
