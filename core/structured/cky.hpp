// The best parse of a sentence under a weighted context-free grammar of binary and lexical rules
// (Cocke; Kasami 1965; Younger 1967): with weights for rules, for labelled spans and for split
// points,
//
//   score(y) = root[A of the root] + sum over words lexical[A -> word]
//            + sum over binary nodes (A -> B C, i, k, j)  rule[A -> B C] + split[label(A), k]
//            + sum over all nodes (A, i, j)  span[label(A), i, j],
//
// maximised exactly in O(n^3 |rules|). Span scores are sums over the edges of a span and its
// length,
//
//   span[l, i, j] = left[l, i] + right[l, j] + length[l, j - i],
//
// and left, right and split are in turn sums of weights of the tokens' cues beside i, j or k.
//
// The loss of a parse y against the truth y* is the number of labelled constituents that only one
// of the two has. A symbol stands for a chain of labels over one span (S over VP), or for none (an
// intermediate node of the binarisation), so that
//
//   loss = |y*| + sum over nodes (A, i, j) of y  size(A) - 2 |labels(A) and labels(y* at i, j)|
//
// decomposes over the nodes of y; the constant |y*| is left out here. The last label over a single
// word is its tag, which is no constituent: sizes and overlaps are given twice, for spans of one
// word and for longer ones.
//
// A weight vector is laid out as rules, lexical entries, roots, then span features feature by
// feature: (4 edges + 2 sides of the split) x cues, then lengths, each with a weight for each
// label.
#pragma once

#include "base/parallel.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace bridle {

struct Grammar {
  int64_t n_symbols, n_terminals, n_labels, n_cues, n_lengths;
  std::vector<int32_t> label;               // of each symbol
  std::vector<int32_t> parent, left, right; // of each rule; rules in order of `left`
  std::vector<int64_t> rules_of;            // rules whose left child is B: n_symbols + 1 offsets
  std::vector<int64_t> entries_of;          // lexical entries of a terminal: n_terminals + 1
  std::vector<int32_t> entry_symbol;        // of each lexical entry
  std::vector<int32_t> roots;               // symbols
  std::vector<double> size;                 // 2 x n_symbols: over one word, over more
  std::vector<int64_t> overlaps_of;         // 2 x n_symbols + 1 offsets, by the truth's symbol
  std::vector<int32_t> overlap_symbol;      // symbols that share labels with it ...
  std::vector<double> overlap;              // ... and how many

  int64_t n_rules() const { return static_cast<int64_t>(parent.size()); }
  int64_t first_entry() const { return n_rules(); }
  int64_t first_root() const { return n_rules() + static_cast<int64_t>(entry_symbol.size()); }
  int64_t first_feature() const { return first_root() + static_cast<int64_t>(roots.size()); }
  int64_t n_weights() const { return first_feature() + (6 * n_cues + n_lengths) * n_labels; }
};

struct ParseNode {
  int32_t symbol, begin, end;
};

// Sentences in one row: sentence s has the tokens offsets[s] to offsets[s + 1]. A token has one
// terminal and `width` cues; cue 0 stands for what is outside of the sentence.
struct Sentences {
  const int64_t *offsets;
  int64_t n_sentences;
  const int32_t *terminals;
  const int32_t *cues;
  int64_t width;
};

class Cky {
public:
  Cky(const Grammar &grammar, const double *w) : g_(grammar), w_(w) {}

  // Writes the 2 n - 1 nodes of the best parse, parents before children and left before right, and
  // returns its score; minus infinity, and nothing written, if there is no parse. With a truth its
  // loss is added, without the constant.
  double parse(const int32_t *terminals, const int32_t *cues, int64_t width, int64_t n,
               const ParseNode *truth, int64_t n_truth, ParseNode *out) {
    n_ = n;
    const double none = -std::numeric_limits<double>::infinity();
    const auto n_spans = static_cast<size_t>(n * (n + 1) / 2);
    best_.assign(n_spans * static_cast<size_t>(g_.n_symbols), none);
    rule_.resize(best_.size());
    split_.resize(best_.size());
    present_.assign(n_spans, {});
    score_edges(cues, width);
    set_costs(truth, n_truth);
    for (int64_t i = 0; i < n; ++i)
      lexical_cell(i, terminals[i]);
    for (int64_t length = 2; length <= n; ++length)
      for (int64_t i = 0; i + length <= n; ++i)
        binary_cell(i, i + length);
    double top = none;
    int64_t root = -1;
    for (size_t r = 0; r < g_.roots.size(); ++r) {
      const double here = cell(0, n)[g_.roots[r]] + w_[g_.first_root() + static_cast<int64_t>(r)];
      if (here > top)
        top = here, root = g_.roots[r];
    }
    if (root >= 0)
      write(static_cast<int32_t>(root), out);
    return top;
  }

private:
  static int64_t at(int64_t i, int64_t j) { return j * (j - 1) / 2 + i; } // the span from i to j
  double *cell(int64_t i, int64_t j) { return best_.data() + at(i, j) * g_.n_symbols; }

  const double *weights_of(int64_t feature) const {
    return w_ + g_.first_feature() + feature * g_.n_labels;
  }

  void add(std::vector<double> &table, int64_t row, int64_t feature) {
    double *to = table.data() + row * g_.n_labels;
    const double *from = weights_of(feature);
    for (int64_t l = 0; l < g_.n_labels; ++l)
      to[l] += from[l];
  }

  // left: the cues of the token that begins the span and of the one before it; right: of the last
  // one and the one after it; middle: of those on both sides of a split.
  void score_edges(const int32_t *cues, int64_t width) {
    const auto size = static_cast<size_t>((n_ + 1) * g_.n_labels);
    left_.assign(size, 0.0);
    right_.assign(size, 0.0);
    middle_.assign(size, 0.0);
    const auto cue = [&](int64_t t, int64_t c) -> int64_t {
      return t < 0 || t >= n_ ? 0 : cues[t * width + c];
    };
    const int64_t U = g_.n_cues;
    for (int64_t t = 0; t <= n_; ++t)
      for (int64_t c = 0; c < width; ++c) {
        add(left_, t, cue(t, c));
        add(left_, t, U + cue(t - 1, c));
        add(right_, t, 2 * U + cue(t - 1, c));
        add(right_, t, 3 * U + cue(t, c));
        add(middle_, t, 4 * U + cue(t - 1, c));
        add(middle_, t, 5 * U + cue(t, c));
      }
  }

  void set_costs(const ParseNode *truth, int64_t n_truth) {
    truth_at_.assign(present_.size(), -1);
    augmented_ = n_truth > 0;
    for (int64_t k = 0; k < n_truth; ++k)
      truth_at_[at(truth[k].begin, truth[k].end)] = truth[k].symbol;
  }

  // What belongs to a node whatever its children are: its span, its length, its cost.
  void finish(int64_t i, int64_t j) {
    double *here = cell(i, j);
    const double *left = left_.data() + i * g_.n_labels, *right = right_.data() + j * g_.n_labels;
    const double *length = weights_of(6 * g_.n_cues + std::min(j - i, g_.n_lengths) - 1);
    const int64_t kind = j - i > 1 ? 1 : 0;
    const double *size = g_.size.data() + kind * g_.n_symbols;
    for (const int32_t A : present_[at(i, j)]) {
      const int64_t l = g_.label[A];
      here[A] += left[l] + right[l] + length[l] + (augmented_ ? size[A] : 0.0);
    }
    if (const int32_t truth = truth_at_[at(i, j)]; truth >= 0) {
      const int64_t *range = g_.overlaps_of.data() + kind * g_.n_symbols + truth;
      for (int64_t k = range[0]; k < range[1]; ++k) // minus infinity stays what it is
        here[g_.overlap_symbol[k]] -= 2 * g_.overlap[k];
    }
  }

  void lexical_cell(int64_t i, int32_t terminal) {
    double *here = cell(i, i + 1);
    for (int64_t e = g_.entries_of[terminal]; e < g_.entries_of[terminal + 1]; ++e) {
      const int32_t A = g_.entry_symbol[e];
      present_[at(i, i + 1)].push_back(A);
      here[A] = w_[g_.first_entry() + e];
    }
    finish(i, i + 1);
  }

  void binary_cell(int64_t i, int64_t j) {
    const double none = -std::numeric_limits<double>::infinity();
    double *__restrict here = cell(i, j);
    int32_t *__restrict rule = rule_.data() + at(i, j) * g_.n_symbols;
    int32_t *__restrict split = split_.data() + at(i, j) * g_.n_symbols;
    auto &present = present_[at(i, j)];
    for (int64_t k = i + 1; k < j; ++k) {
      const double *left = cell(i, k), *right = cell(k, j);
      const double *middle = middle_.data() + k * g_.n_labels;
      for (const int32_t B : present_[at(i, k)]) {
        const double base = left[B];
        for (int64_t r = g_.rules_of[B]; r < g_.rules_of[B + 1]; ++r) {
          const double other = right[g_.right[r]];
          if (other == none)
            continue;
          const int32_t A = g_.parent[r];
          const double candidate = base + other + w_[r] + middle[g_.label[A]];
          if (candidate > here[A]) {
            if (here[A] == none)
              present.push_back(A);
            here[A] = candidate;
            rule[A] = static_cast<int32_t>(r);
            split[A] = static_cast<int32_t>(k);
          }
        }
      }
    }
    finish(i, j);
  }

  // With a stack of its own: long sentences nest deeply.
  void write(int32_t root, ParseNode *out) {
    std::vector<ParseNode> open{{root, 0, static_cast<int32_t>(n_)}};
    while (!open.empty()) {
      const ParseNode node = open.back();
      open.pop_back();
      *out++ = node;
      if (node.end - node.begin == 1)
        continue;
      const int64_t where = at(node.begin, node.end) * g_.n_symbols + node.symbol;
      const int32_t r = rule_[where], k = split_[where];
      open.push_back({g_.right[r], k, node.end});
      open.push_back({g_.left[r], node.begin, k});
    }
  }

  const Grammar &g_;
  const double *w_;
  int64_t n_ = 0;
  bool augmented_ = false;
  std::vector<double> best_;          // spans x symbols
  std::vector<int32_t> rule_, split_; // by which rule, and where it was split
  std::vector<std::vector<int32_t>> present_;
  std::vector<double> left_, right_, middle_; // (n + 1) x labels
  std::vector<int32_t> truth_at_;
};

// The best parse of every sentence. Sentence s has 2 n - 1 nodes, from nodes[2 offsets[s] - s] on;
// where it has no parse its value is minus infinity and its nodes are left as they are. truths: the
// same for true parses, whose loss is then added, or nullptr.
inline void parse_all(const Grammar &grammar, const Sentences &sentences, const double *w,
                      const ParseNode *truths, ParseNode *nodes, double *values, int n_threads) {
  const int64_t n_blocks = std::clamp<int64_t>(sentences.n_sentences / 4, 1, 256);
  for_blocks(n_blocks, n_threads, [&](int64_t block) {
    Cky cky(grammar, w);
    const auto [begin, end] = block_range(sentences.n_sentences, n_blocks, block);
    for (int64_t s = begin; s < end; ++s) {
      const int64_t first = sentences.offsets[s], n = sentences.offsets[s + 1] - first;
      const int64_t node = 2 * first - s;
      values[s] = cky.parse(sentences.terminals + first, sentences.cues + first * sentences.width,
                            sentences.width, n, truths ? truths + node : nullptr,
                            truths ? 2 * n - 1 : 0, nodes + node);
    }
  });
}

} // namespace bridle
