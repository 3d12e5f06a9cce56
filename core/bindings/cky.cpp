#include "bindings.hpp"

#include "structured/cky.hpp"

#include <nanobind/stl/optional.h>

#include <optional>

namespace bridle {
namespace {

template <class T> std::vector<T> copy(const Vector<T> &array) {
  return {array.data(), array.data() + array.shape(0)};
}

void expect_below(const Vector<int32_t> &ids, int64_t end, const char *name) {
  for (size_t k = 0; k < ids.shape(0); ++k)
    if (ids.data()[k] < 0 || ids.data()[k] >= end)
      throw nb::value_error((std::string(name) + " contains " + std::to_string(ids.data()[k]) +
                             ", outside 0.." + std::to_string(end - 1))
                                .c_str());
}

void expect_offsets(const Vector<int64_t> &offsets, int64_t n, int64_t end, const char *name) {
  expect_size(offsets, n + 1, name);
  const int64_t *o = offsets.data();
  if (o[0] != 0 || o[n] != end || !std::is_sorted(o, o + n + 1))
    throw nb::value_error(
        (std::string(name) + " must rise from 0 to " + std::to_string(end)).c_str());
}

Grammar make_grammar(int64_t n_symbols, int64_t n_terminals, int64_t n_labels, int64_t n_cues,
                     int64_t n_lengths, Vector<int32_t> label, Vector<int32_t> parent,
                     Vector<int32_t> left, Vector<int32_t> right, Vector<int64_t> entries_of,
                     Vector<int32_t> entry_symbol, Vector<int32_t> roots, Vector<double> size,
                     Vector<int64_t> overlaps_of, Vector<int32_t> overlap_symbol,
                     Vector<double> overlap) {
  const std::pair<const char *, int64_t> sizes[] = {{"n_symbols", n_symbols},
                                                    {"n_terminals", n_terminals},
                                                    {"n_labels", n_labels},
                                                    {"n_cues", n_cues},
                                                    {"n_lengths", n_lengths}};
  for (const auto &[name, n] : sizes)
    expect_between(n, 1, INT32_MAX, name);
  room_for(6 * n_cues + n_lengths, n_labels, "weights");
  const auto n_rules = static_cast<int64_t>(parent.shape(0));
  expect_size(left, n_rules, "left");
  expect_size(right, n_rules, "right");
  expect_size(label, n_symbols, "label");
  expect_size(size, 2 * n_symbols, "size");
  expect_below(label, n_labels, "label");
  expect_below(parent, n_symbols, "parent");
  expect_below(left, n_symbols, "left");
  expect_below(right, n_symbols, "right");
  expect_below(entry_symbol, n_symbols, "entry_symbol");
  expect_below(roots, n_symbols, "roots");
  expect_below(overlap_symbol, n_symbols, "overlap_symbol");
  expect_offsets(entries_of, n_terminals, static_cast<int64_t>(entry_symbol.shape(0)),
                 "entries_of");
  expect_size(overlap, static_cast<int64_t>(overlap_symbol.shape(0)), "overlap");
  expect_offsets(overlaps_of, 2 * n_symbols, static_cast<int64_t>(overlap.shape(0)), "overlaps_of");
  if (!std::is_sorted(left.data(), left.data() + n_rules))
    throw nb::value_error("rules must be in order of their left child");
  std::vector<int64_t> rules_of(static_cast<size_t>(n_symbols) + 1);
  for (int64_t r = 0; r < n_rules; ++r)
    ++rules_of[static_cast<size_t>(left.data()[r]) + 1];
  for (int64_t s = 0; s < n_symbols; ++s)
    rules_of[s + 1] += rules_of[s];
  return {n_symbols,    n_terminals, n_labels,          n_cues,
          n_lengths,    copy(label), copy(parent),      copy(left),
          copy(right),  rules_of,    copy(entries_of),  copy(entry_symbol),
          copy(roots),  copy(size),  copy(overlaps_of), copy(overlap_symbol),
          copy(overlap)};
}

using Matrix = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using MutableMatrix = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
static_assert(sizeof(ParseNode) == 3 * sizeof(int32_t));

void check_nodes(const Grammar &grammar, const Matrix &nodes, const int64_t *offsets, int64_t n) {
  const auto *node = reinterpret_cast<const ParseNode *>(nodes.data());
  for (int64_t s = 0; s < n; ++s) {
    const int64_t length = offsets[s + 1] - offsets[s];
    for (int64_t k = 0; k < 2 * length - 1; ++k, ++node)
      if (node->symbol < 0 || node->symbol >= grammar.n_symbols || node->begin < 0 ||
          node->begin >= node->end || node->end > length)
        throw nb::value_error("truths has a node that does not fit its sentence");
  }
}

// A chart has a score, a rule and a split for each span and symbol.
void expect_chart(const Grammar &grammar, int64_t n) {
  expect_between(n, 1, INT32_MAX, "the words of a sentence");
  room_for(n * (n + 1), grammar.n_symbols, "the chart of a sentence");
}

void parse(const Grammar &grammar, Vector<int64_t> offsets, Vector<int32_t> terminals,
           const Matrix &cues, Vector<double> w, const std::optional<Matrix> &truths,
           MutableMatrix nodes, MutableVector<double> values, int n_threads) {
  if (offsets.shape(0) == 0)
    throw nb::value_error("offsets is empty");
  const auto n = static_cast<int64_t>(offsets.shape(0)) - 1;
  const auto n_tokens = static_cast<int64_t>(terminals.shape(0));
  expect_offsets(offsets, n, n_tokens, "offsets");
  for (int64_t s = 0; s < n; ++s)
    if (offsets.data()[s] == offsets.data()[s + 1])
      throw nb::value_error(("sentence " + std::to_string(s) + " has no words").c_str());
    else
      expect_chart(grammar, offsets.data()[s + 1] - offsets.data()[s]);
  expect_below(terminals, grammar.n_terminals, "terminals");
  expect_size(cues, n_tokens, "cues");
  const auto width = static_cast<int64_t>(cues.shape(1));
  for (int64_t k = 0; k < n_tokens * width; ++k)
    if (cues.data()[k] < 0 || cues.data()[k] >= grammar.n_cues)
      throw nb::value_error("cues has an entry outside of the grammar's");
  expect_size(w, grammar.n_weights(), "w");
  expect_size(values, n, "values");
  expect_size(nodes, 2 * n_tokens - n, "nodes");
  if (nodes.shape(1) != 3)
    throw nb::value_error("nodes must have 3 columns");
  const ParseNode *truth = nullptr;
  if (truths) {
    expect_size(*truths, 2 * n_tokens - n, "truths");
    if (truths->shape(1) != 3)
      throw nb::value_error("truths must have 3 columns");
    check_nodes(grammar, *truths, offsets.data(), n);
    truth = reinterpret_cast<const ParseNode *>(truths->data());
  }
  const nb::gil_scoped_release release;
  const Sentences sentences{offsets.data(), n, terminals.data(), cues.data(), width};
  parse_all(grammar, sentences, w.data(), truth, reinterpret_cast<ParseNode *>(nodes.data()),
            values.data(), n_threads);
}

} // namespace

void bind_cky(nb::module_ &m) {
  nb::class_<Grammar>(m, "Grammar", "Binary and lexical rules, and the labels of their symbols.")
      .def_prop_ro("n_weights", &Grammar::n_weights)
      .def("parse", &parse, nb::arg("offsets"), nb::arg("terminals"), nb::arg("cues"), nb::arg("w"),
           nb::arg("truths").none(), nb::arg("nodes"), nb::arg("values"), nb::arg("n_threads"),
           "The best parse of every sentence, as (symbol, begin, end), parents first; with the "
           "loss against true ones, if given. The value is -inf where there is none.");
  m.def("grammar", &make_grammar, nb::arg("n_symbols"), nb::arg("n_terminals"), nb::arg("n_labels"),
        nb::arg("n_cues"), nb::arg("n_lengths"), nb::arg("label"), nb::arg("parent"),
        nb::arg("left"), nb::arg("right"), nb::arg("entries_of"), nb::arg("entry_symbol"),
        nb::arg("roots"), nb::arg("size"), nb::arg("overlaps_of"), nb::arg("overlap_symbol"),
        nb::arg("overlap"));
}

} // namespace bridle
