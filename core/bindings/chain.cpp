#include "bindings.hpp"

#include "structured/chain.hpp"
#include "structured/chain_bcfw.hpp"
#include "structured/marginals.hpp"

#include <span>
#include <vector>

namespace bridle {
namespace {

// Sequences of rows with labels; reads the arrays in place.
struct Chain {
  AnyRows rows;
  ChainShape shape;

  int64_t n_tokens() const {
    return std::visit([](const auto &r) { return r.n_rows; }, rows);
  }
  int64_t n_weights() const {
    return std::visit([&](const auto &r) { return n_chain_weights(r, shape); }, rows);
  }
};

void check_labels(const Vector<int32_t> &labels, int64_t n_labels, const char *name) {
  const nb::gil_scoped_release release;
  for (size_t t = 0; t < labels.shape(0); ++t)
    if (labels.data()[t] < 0 || labels.data()[t] >= n_labels)
      throw nb::value_error((std::string(name) + " contains " + std::to_string(labels.data()[t]) +
                             ", outside 0.." + std::to_string(n_labels - 1))
                                .c_str());
}

Chain make_chain(const PyRows &rows, Vector<int64_t> offsets, Vector<int32_t> labels,
                 Vector<double> cost, int64_t n_labels, bool transitions) {
  expect_between(n_labels, 1, INT32_MAX, "n_labels"); // labels have 32 bits
  room_for(n_weights(rows), n_labels, "weights");
  if (offsets.shape(0) == 0)
    throw nb::value_error("offsets is empty");
  expect_size(labels, n_rows(rows), "labels");
  expect_size(cost, n_labels * n_labels, "cost");
  check_labels(labels, n_labels, "labels");
  const auto n = static_cast<int64_t>(offsets.shape(0)) - 1;
  const int64_t *o = offsets.data();
  if (o[0] != 0 || o[n] != n_rows(rows) || !std::is_sorted(o, o + n + 1))
    throw nb::value_error("offsets must rise from 0 to the number of rows");
  return {rows.view(), ChainShape{o, n, labels.data(), cost.data(), n_labels, transitions}};
}

void argmax(const Chain &chain, Vector<double> w, bool augmented, MutableVector<int32_t> paths,
            MutableVector<double> values, MutableVector<double> truths, int n_threads) {
  expect_size(w, chain.n_weights(), "w");
  expect_size(paths, chain.n_tokens(), "paths");
  expect_size(values, chain.shape.n_sequences, "values");
  expect_size(truths, chain.shape.n_sequences, "truths");
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &rows) {
        chain_argmax(rows, chain.shape, w.data(), augmented, paths.data(), values.data(),
                     truths.data(), n_threads);
      },
      chain.rows);
}

template <class Add>
void through(const Chain &chain, Vector<double> w, MutableVector<double> out, int n_threads) {
  expect_size(w, chain.n_weights(), "w");
  expect_size(out, chain.n_tokens() * chain.shape.K, "out");
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &rows) {
        chain_through<Add>(rows, chain.shape, w.data(), out.data(), n_threads);
      },
      chain.rows);
}

// out += sum_i coefficients[i] (Psi(x_i, labels_i) - Psi(x_i, paths_i))
void differences(const Chain &chain, Vector<int32_t> paths, Vector<double> coefficients,
                 MutableVector<double> out) {
  expect_size(paths, chain.n_tokens(), "paths");
  expect_size(coefficients, chain.shape.n_sequences, "coefficients");
  expect_size(out, chain.n_weights(), "out");
  check_labels(paths, chain.shape.K, "paths");
  const nb::gil_scoped_release release;
  std::visit(
      [&](const auto &rows) {
        for (int64_t i = 0; i < chain.shape.n_sequences; ++i)
          for_difference(
              rows, chain.shape, i, paths.data() + chain.shape.begin(i),
              [&, c = coefficients.data()[i]](int64_t k, double v) { out.data()[k] += c * v; });
      },
      chain.rows);
}

void losses(const Chain &chain, Vector<int32_t> paths, MutableVector<double> out) {
  expect_size(paths, chain.n_tokens(), "paths");
  expect_size(out, chain.shape.n_sequences, "out");
  check_labels(paths, chain.shape.K, "paths");
  const nb::gil_scoped_release release;
  for (int64_t i = 0; i < chain.shape.n_sequences; ++i)
    out.data()[i] = path_loss(chain.shape, i, paths.data() + chain.shape.begin(i));
}

void check_sequence(const Chain &chain, int64_t i) {
  if (i < 0 || i >= chain.shape.n_sequences)
    throw nb::index_error("no such sequence");
}

// (path, loss) of the most violated constraint of one sequence.
nb::tuple answer(const Chain &chain, int64_t i, Vector<double> w) {
  check_sequence(chain, i);
  expect_size(w, chain.n_weights(), "w");
  std::vector<int32_t> path(static_cast<size_t>(chain.shape.length(i)));
  ChainScratch<double> scratch;
  std::visit(
      [&](const auto &rows) {
        chain_answer(rows, chain.shape, i, w.data(), true, scratch, path.data());
      },
      chain.rows);
  const double loss = path_loss(chain.shape, i, path.data());
  return nb::make_tuple(to_numpy(std::move(path)), loss);
}

// (indices, values) of Psi(x_i, labels_i) - Psi(x_i, path); indices may come more than once.
nb::tuple difference(const Chain &chain, int64_t i, Vector<int32_t> path) {
  check_sequence(chain, i);
  expect_size(path, chain.shape.length(i), "path");
  check_labels(path, chain.shape.K, "path");
  std::vector<int64_t> indices;
  std::vector<double> values;
  std::visit(
      [&](const auto &rows) {
        for_difference(rows, chain.shape, i, path.data(), [&](int64_t k, double v) {
          indices.push_back(k);
          values.push_back(v);
        });
      },
      chain.rows);
  return nb::make_tuple(to_numpy(std::move(indices)), to_numpy(std::move(values)));
}

void expect_finite_costs(const ChainShape &shape) {
  if (!std::all_of(shape.cost, shape.cost + shape.K * shape.K,
                   [](double c) { return std::isfinite(c); }))
    refuse("the costs of labels contain NaN or infinity");
}

std::unique_ptr<ChainFrankWolfe> frank_wolfe(const Chain &chain, Vector<double> C) {
  expect_size(C, chain.shape.n_sequences, "C");
  expect_finite(C, "the costs");
  expect_finite_costs(chain.shape);
  const nb::gil_scoped_release release;
  return std::visit(
      [&](const auto &rows) -> std::unique_ptr<ChainFrankWolfe> {
        using On = ChainFrankWolfeOn<std::decay_t<decltype(rows)>>;
        return std::make_unique<On>(rows, chain.shape, C.data());
      },
      chain.rows);
}

void visit(ChainFrankWolfe &kernel, Vector<int64_t> order, int64_t further_steps) {
  expect_between(further_steps, 0, int64_t{1} << 32, "further_steps");
  const auto n = static_cast<int64_t>(kernel.gaps().size());
  const std::span<const int64_t> visits(order.data(), order.shape(0));
  for (const int64_t i : visits)
    if (i < 0 || i >= n)
      throw nb::index_error("order names a sequence that does not exist");
  const nb::gil_scoped_release release;
  kernel.visit(visits, further_steps);
}

nb::object gaps(const ChainFrankWolfe &kernel) {
  const auto gaps = kernel.gaps();
  return to_numpy(std::vector<double>(gaps.begin(), gaps.end()));
}

// (token, previous label or -1, label, mass) of every edge that has mass.
nb::tuple marginals(const ChainFrankWolfe &kernel) {
  std::vector<int64_t> tokens;
  std::vector<int32_t> from, to;
  std::vector<double> mass;
  for (int64_t token = 0; token < kernel.n_tokens(); ++token)
    for (const ChainEdge &edge : kernel.edges(token)) {
      tokens.push_back(token);
      from.push_back(edge.from);
      to.push_back(edge.to);
      mass.push_back(edge.mass);
    }
  return nb::make_tuple(to_numpy(std::move(tokens)), to_numpy(std::move(from)),
                        to_numpy(std::move(to)), to_numpy(std::move(mass)));
}

} // namespace

void bind_chain(nb::module_ &m) {
  nb::class_<Chain>(m, "Chain", "Sequences of feature rows with labels, read in place.")
      .def_prop_ro("n_weights", &Chain::n_weights)
      .def("argmax", &argmax, nb::arg("w"), nb::arg("augmented"), nb::arg("paths"),
           nb::arg("values"), nb::arg("truths"), nb::arg("n_threads"),
           "The best path of every sequence, its value, and the score of the true labels.")
      .def("max_through", &through<Largest>, nb::arg("w"), nb::arg("out"), nb::arg("n_threads"),
           "The value of the best path through each label of each row.")
      .def("log_sum_through", &through<LogSumExp>, nb::arg("w"), nb::arg("out"),
           nb::arg("n_threads"), "log sum exp of the values of all paths through each label.")
      .def("differences", &differences, nb::arg("paths"), nb::arg("coefficients"), nb::arg("out"),
           "out += sum_i coefficients[i] (Psi(x_i, labels_i) - Psi(x_i, paths_i))")
      .def("answer", &answer, nb::arg("i"), nb::arg("w"),
           "(path, loss) of the most violated constraint of one sequence.")
      .def("difference", &difference, nb::arg("i"), nb::arg("path"),
           "(indices, values) of Psi(x_i, labels_i) - Psi(x_i, path).")
      .def("losses", &losses, nb::arg("paths"), nb::arg("out"));
  // noconvert: a converted copy would be gone by the time it is read.
  m.def("chain", &make_chain, nb::arg("rows"), nb::arg("offsets").noconvert(),
        nb::arg("labels").noconvert(), nb::arg("cost").noconvert(), nb::arg("n_labels"),
        nb::arg("transitions"), nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(),
        nb::keep_alive<0, 3>(), nb::keep_alive<0, 4>());
  nb::class_<ChainFrankWolfe>(m, "ChainFrankWolfe")
      .def("visit", &visit, nb::arg("order"), nb::arg("further_steps"),
           "Visit sequences in this order, averaging w over the visits.")
      .def("gaps", &gaps, "The gap of each sequence at its last visit.")
      .def_prop_ro("dual", &ChainFrankWolfe::dual)
      .def_prop_ro("n_weights", &ChainFrankWolfe::n_weights)
      .def(
          "weights",
          [](ChainFrankWolfe &self, MutableVector<double> out) {
            expect_size(out, self.n_weights(), "out");
            const nb::gil_scoped_release release;
            return self.weights(out.data());
          },
          nb::arg("out"), "Rebuild w from the paths; returns sum_i C_i mean loss_i.")
      .def_prop_ro(
          "errors",
          [](const ChainFrankWolfe &self) {
            const MeanErrors errors = self.errors();
            return nb::make_tuple(errors.features, errors.loss);
          },
          "How far an exact convex combination may be from what `weights` said last.")
      .def(
          "average",
          [](const ChainFrankWolfe &self, MutableVector<double> out) {
            expect_size(out, self.n_weights(), "out");
            const nb::gil_scoped_release release;
            self.average(out.data());
          },
          nb::arg("out"), "The mean of w over the visits of the last call of visit().")
      .def("marginals", &marginals,
           "The dual point: (token, previous label or -1, label, mass) of every edge with mass.");
  m.def("chain_frank_wolfe", &frank_wolfe, nb::arg("chain"), nb::arg("C").noconvert(),
        nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
}

} // namespace bridle
