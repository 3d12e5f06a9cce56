// A descent that becomes a part of many at the first call of a part's methods. Only until Python
// calls `dcd_part` where it means one: then this file goes, and with it what includes it.
#pragma once

#include "bindings.hpp"

#include "linear/dcd/descent.hpp"
#include "linear/dcd/part.hpp"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace bridle {

class DcdAsPart final : public DualCoordinateDescent {
public:
  using Make = std::function<std::unique_ptr<DcdPart>(Vector<double>)>;

  DcdAsPart(std::unique_ptr<DualCoordinateDescent> descent, Make make)
      : DualCoordinateDescent(descent->n_rows, descent->n_weights), descent_(std::move(descent)),
        make_(std::move(make)) {}

  DcdPart &part() {
    if (!part_) {
      std::vector<double> alpha(n_rows);
      descent_->alpha(alpha.data());
      part_ = make_(Vector<double>(alpha.data(), {alpha.size()}));
      descent_.reset();
    }
    return *part_;
  }

  DcdEpoch visit(Rng &rng, int64_t bucket, double share) override {
    return descent().visit(rng, bucket, share);
  }
  DcdSample sample(Rng &rng, int64_t n) const override { return descent().sample(rng, n); }
  DcdSample sample_resting(Rng &rng, int64_t n) const override {
    return descent().sample_resting(rng, n);
  }
  void unshrink() override { part_ ? part_->unshrink() : descent_->unshrink(); }
  int64_t n_active() const override { return part_ ? part_->n_active() : descent_->n_active(); }
  void alpha(double *out) const override { part_ ? part_->alpha(out) : descent_->alpha(out); }
  void weights(double *out) const override { descent().weights(out); }
  double bias() const override { return descent().bias(); }

private:
  DualCoordinateDescent &descent() const {
    if (!descent_)
      throw std::logic_error("a part has no weights of its own");
    return *descent_;
  }

  std::unique_ptr<DualCoordinateDescent> descent_;
  std::unique_ptr<DcdPart> part_;
  Make make_;
};

inline DcdPart &part_of(DualCoordinateDescent &descent) {
  return static_cast<DcdAsPart &>(descent).part();
}

} // namespace bridle
