// The perceptron with margin, whose threshold may grow with the presentations t of a row:
//
//   a += c_i z_i  when  a.z_i <= offset + slope t,   then t += 1.
//
// slope 0 is the perceptron (offset 0) and the margin perceptron. offset 0 and slope lam is
// stochastic gradient descent with rate 1/(lam t) on lam/2 |w|^2 + 1/m sum c_i max(0, 1 - w.z_i),
// where w = a/(lam t): nothing ever shrinks (Panagiotakopoulos & Tsampouka, ECML PKDD 2013). A row
// may be presented L times at one visit, for one inner product; L may change from epoch to epoch.
// A bias b that is held fixed meanwhile takes its part of the margin: w.z_i >= 1 - y_i b is
// a.z_i >= (1 - y_i b) (offset + slope t).
#pragma once

#include "base/rng.hpp"
#include "linear/part_of.hpp"
#include "linear/sampling.hpp"
#include "rows/views.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace bridle {

// How the L presentations of a visit are counted. exact: as if each was made by itself.
// forward_backward: all of them meet the threshold of the first one, which moves on afterwards.
enum class Repeats { exact, forward_backward };

inline Repeats repeats_from_name(std::string_view name) {
  if (name == "exact")
    return Repeats::exact;
  if (name == "forward-backward")
    return Repeats::forward_backward;
  throw std::invalid_argument("unknown way to repeat: " + std::string(name));
}

struct MarginPerceptronSettings {
  double offset, slope; // of the threshold
  int64_t presented;    // presentations before the start
  int64_t repeat;       // L, to begin with
  Repeats repeats;
  Sampling sampling;
  int64_t bucket;
};

class MarginPerceptron {
public:
  const int64_t n_rows, n_weights;

  MarginPerceptron(int64_t rows, int64_t weights) : n_rows(rows), n_weights(weights) {}
  virtual ~MarginPerceptron() = default;
  virtual void run(int64_t n_visits, Rng &rng) = 0;
  // The visits to come are on this part of the data, which begins with row `first`.
  virtual void enter(const AnyRows &part, const double *signed_weight, const double *squared_norms,
                     int64_t first) = 0;
  virtual void output(double *a, double *counts) const = 0;

  int64_t presented = 0;   // t
  int64_t repeat = 1;      // L, of the visits to come
  double bias = 0;         // of the visits to come
  int64_t updates = 0;     // made by the last run
  double weighted_sum = 0; // sum_i c_i I_i, I_i the updates by row i
  double squared_norm = 0; // |a|^2
  double hinge = 0;        // sum of c_i max(0, 1 - w.z_i) as the last run met the rows
};

template <RowsLike Rows> class MarginPerceptronOn final : public MarginPerceptron {
public:
  using W = typename Rows::Value;

  // signed_weight: y_i c_i. n_rows: of the data, of which `rows` may be the first part.
  MarginPerceptronOn(const Rows &rows, const double *signed_weight, const double *squared_norms,
                     const double *start_a, const double *start_counts, int64_t n_rows,
                     const MarginPerceptronSettings &settings)
      : MarginPerceptron(n_rows, rows.n_features + 1), rows_(rows), signed_weight_(signed_weight),
        squared_norms_(squared_norms), settings_(settings),
        order_(settings.sampling, rows.n_rows, 1, settings.bucket),
        a_(start_a, start_a + rows.n_features + 1), counts_(start_counts, start_counts + n_rows) {
    presented = settings.presented;
    repeat = settings.repeat;
    for (int64_t i = 0; i < rows.n_rows; ++i)
      weighted_sum += std::abs(signed_weight[i]) * start_counts[i];
    refresh_norm();
  }

  void run(int64_t n_visits, Rng &rng) override {
    updates = 0;
    hinge = 0;
    for (int64_t n = 0; n < n_visits; ++n)
      visit(order_.next(rng));
    refresh_norm();
  }

  void enter(const AnyRows &part, const double *signed_weight, const double *squared_norms,
             int64_t first) override {
    rows_ = part_of(rows_, part, first, n_rows);
    signed_weight_ = signed_weight;
    squared_norms_ = squared_norms;
    first_ = first;
    order_ = RowOrder(Sampling::epochs, rows_.n_rows, 1, settings_.bucket);
  }

  void output(double *a, double *counts) const override {
    std::copy(a_.begin(), a_.end(), a);
    std::copy(counts_.begin(), counts_.end(), counts);
  }

private:
  void visit(int64_t i) {
    order_.prefetch(rows_, signed_weight_, squared_norms_, counts_.data() + first_);
    const double y = std::copysign(1.0, signed_weight_[i]), c = std::abs(signed_weight_[i]);
    const double margin = y * static_cast<double>(rows_.dot(i, a_.data()));
    const double threshold = settings_.offset + settings_.slope * static_cast<double>(presented);
    const double share = 1 - y * bias;
    hinge += c * (threshold > 0 ? std::max(0.0, share - margin / threshold) : 1.0);
    const double n =
        count(share * threshold - margin, share * settings_.slope, c * squared_norms_[i]);
    if (n > 0 && c > 0) {
      rows_.add(i, static_cast<W>(n * c * y), a_.data());
      counts_[first_ + i] += n;
      weighted_sum += n * c;
      ++updates;
    }
    presented += repeat;
  }

  // How many of the L presentations end in an update; `short_by` is threshold - a.z before the
  // first, each presentation raises the threshold by `slope`, and each update a.z by
  // q = c_i |z_i|^2.
  double count(double short_by, double slope, double q) const {
    const auto most = static_cast<double>(repeat);
    if (repeat == 1)
      return short_by >= 0 ? 1 : 0;
    if (settings_.repeats == Repeats::forward_backward)
      return short_by < 0 ? 0 : q > 0 ? std::min(std::floor(short_by / q) + 1, most) : most;
    // The threshold falls, or stays: updates come first, until a.z is above it.
    if (slope <= 0)
      return short_by < 0 ? 0
             : q > slope  ? std::min(std::floor(short_by / (q - slope)) + 1, most)
                          : most;
    if (q > slope)
      return std::clamp(std::floor((short_by + slope * (most - 1)) / q) + 1, 0.0, most);
    // The threshold rises at least as fast as a.z: once behind, a row stays behind.
    if (short_by >= 0)
      return most;
    return std::max(0.0, most - std::ceil(-short_by / slope));
  }

  void refresh_norm() {
    squared_norm = 0;
    for (const W ak : a_)
      squared_norm += static_cast<double>(ak) * ak;
  }

  Rows rows_;
  const double *signed_weight_, *squared_norms_;
  MarginPerceptronSettings settings_;
  RowOrder order_;
  int64_t first_ = 0; // of the part at hand, among all rows
  std::vector<W> a_;
  std::vector<double> counts_;
};

} // namespace bridle
