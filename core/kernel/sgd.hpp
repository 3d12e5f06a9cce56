// Stochastic subgradient steps in the space of a kernel,
//
//     f <- (1 - eta_t lam) f + (eta_t / k) sum_{i in A_t, y_i (f(x_i) + b) < 1} c_i y_i K(x_i, .),
//
// with f = s sum_j beta_j K(x_j, .): the rows that come next are known ahead, so the scores of the
// next few dozen are computed against all support rows at once, as a matrix product, and then kept
// up to date among themselves. Same steps, same result, at the speed of a product.
#pragma once

#include "kernel/expand.hpp"
#include "linear/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace bridle {

// eta_t = scale / (t + offset)^power, t the number of steps taken.
struct PowerRate {
  double scale, offset, power;
  double at(int64_t t) const { return scale / std::pow(static_cast<double>(t) + offset, power); }
};

class KernelSgd {
public:
  virtual ~KernelSgd() = default;
  virtual void run(int64_t n_steps, Rng &rng) = 0;
  virtual void coefficients(double *out) const = 0;
  virtual double bias() const = 0;
  virtual void set_bias(double bias) = 0;
  virtual int64_t n_rows() const = 0;
};

template <class T> class KernelSgdOn final : public KernelSgd {
public:
  // signed_weight: c_i y_i. window: terms older than this many steps are dropped, 0 for never.
  KernelSgdOn(std::unique_ptr<KernelSource<T>> source, const double *signed_weight,
              const double *start, double squared_norm, int64_t steps_before, double lam,
              PowerRate rate, double bias_rate, double radius, int64_t batch, Sampling sampling,
              int64_t window, int n_threads)
      : source_(std::move(source)), signed_weight_(signed_weight),
        beta_(start, start + source_->n_rows()), squared_norm_(squared_norm), step_(steps_before),
        lam_(lam), rate_(rate), bias_rate_(bias_rate), radius_(radius), batch_(batch),
        window_(window), order_(sampling, source_->n_rows(), batch, 1), n_threads_(n_threads) {}

  void run(int64_t n_steps, Rng &rng) override {
    const int64_t steps_at_once = std::max<int64_t>(1, centres_at_once / batch_);
    for (int64_t done = 0; done < n_steps;) {
      const int64_t n = std::min(steps_at_once, n_steps - done);
      ahead_.resize(n * batch_);
      for (int64_t &row : ahead_)
        row = order_.next(rng);
      forget();
      look_ahead();
      for (int64_t s = 0; s < n; ++s)
        step(s * batch_);
      done += n;
    }
  }

  void coefficients(double *out) const override {
    for (size_t i = 0; i < beta_.size(); ++i)
      out[i] = scale_ * beta_[i];
  }
  double bias() const override { return bias_; }
  void set_bias(double bias) override { bias_ = bias; }
  int64_t n_rows() const override { return source_->n_rows(); }

private:
  struct Term {
    int64_t step, row;
    double amount;
  };

  void forget() {
    if (window_ == 0)
      return;
    for (; !terms_.empty() && terms_.front().step + window_ <= step_; terms_.pop_front())
      beta_[terms_.front().row] -= terms_.front().amount;
  }

  // score_[r] = sum_j beta_j K(x_j, x_ahead[r]), and the kernel among the rows ahead.
  void look_ahead() {
    const auto n = static_cast<int64_t>(ahead_.size());
    support_.clear();
    for (size_t i = 0; i < beta_.size(); ++i)
      if (beta_[i] != 0)
        support_.push_back(static_cast<int64_t>(i));
    source_->pack(ahead_, panels_);
    const auto n_support = static_cast<int64_t>(support_.size());
    const int64_t n_blocks = (n_support + rows_at_once - 1) / rows_at_once;
    partial_.assign(n_blocks * n, 0.0);
    for_blocks(n_blocks, threads_for(n_support * n, n_threads_), [&](int64_t block) {
      const auto [begin, end] = block_range(n_support, n_blocks, block);
      const int64_t width = end - begin;
      std::vector<T> values(n * width);
      std::vector<T *> out(n);
      for (int64_t r = 0; r < n; ++r)
        out[r] = values.data() + r * width;
      source_->block(panels_, std::span(support_).subspan(begin, width), out.data());
      for (int64_t r = 0; r < n; ++r) {
        double sum = 0;
        for (int64_t k = 0; k < width; ++k)
          sum += beta_[support_[begin + k]] * static_cast<double>(out[r][k]);
        partial_[block * n + r] = sum;
      }
    });
    score_.assign(n, 0.0);
    for (int64_t block = 0; block < n_blocks; ++block) // in order: the same for any threads
      for (int64_t r = 0; r < n; ++r)
        score_[r] += partial_[block * n + r];
    among_.resize(n * n);
    std::vector<T *> out(n);
    for (int64_t r = 0; r < n; ++r)
      out[r] = among_.data() + r * n;
    source_->block(panels_, ahead_, out.data());
  }

  void step(int64_t first) {
    const double eta = rate_.at(step_), shrink = 1 - eta * lam_;
    violators_.clear();
    for (int64_t r = first; r < first + batch_; ++r) {
      const double y = std::copysign(1.0, signed_weight_[ahead_[r]]);
      if (y * (scale_ * score_[r] + bias_) < 1)
        violators_.push_back(r);
    }
    multiply(shrink);
    for (const int64_t r : violators_) {
      const double weight = signed_weight_[ahead_[r]];
      add(r, eta * weight / (static_cast<double>(batch_) * scale_));
      bias_ += bias_rate_ * eta * weight / static_cast<double>(batch_);
    }
    ++step_;
    const double norm = scale_ * std::sqrt(std::max(squared_norm_, 0.0));
    if (norm > radius_)
      multiply(radius_ / norm);
  }

  void multiply(double factor) {
    scale_ *= factor;
    if (scale_ <= 1e-100) { // also where the first step of Pegasos forgets everything
      for (double &b : beta_)
        b *= scale_;
      for (double &s : score_)
        s *= scale_;
      for (Term &term : terms_)
        term.amount *= scale_;
      squared_norm_ *= scale_ * scale_;
      scale_ = 1;
    }
  }

  void add(int64_t r, double amount) {
    const auto n = static_cast<int64_t>(ahead_.size());
    const int64_t row = ahead_[r];
    squared_norm_ += amount * (2 * score_[r] + amount * source_->diagonal(row));
    beta_[row] += amount;
    for (int64_t k = 0; k < n; ++k)
      score_[k] += amount * static_cast<double>(among_[r * n + k]);
    if (window_ > 0)
      terms_.push_back({step_, row, amount});
  }

  std::unique_ptr<KernelSource<T>> source_;
  const double *signed_weight_;
  std::vector<double> beta_;
  double squared_norm_, scale_ = 1, bias_ = 0;
  int64_t step_;
  double lam_;
  PowerRate rate_;
  double bias_rate_, radius_;
  int64_t batch_, window_;
  RowOrder order_;
  int n_threads_;
  std::vector<int64_t> ahead_, support_, violators_;
  std::vector<double> score_, partial_;
  std::vector<T> among_;
  std::deque<Term> terms_;
  Panels<T> panels_;
};

} // namespace bridle
