#pragma once

#include <cstdint>

namespace muster {

/// The factor that keeps float16 gradients from vanishing: doubled after 2,000 good steps, halved
/// when a gradient overflows. 1 and idle when it is not enabled.
class LossScale {
 public:
  explicit LossScale(bool enabled) : enabled_(enabled), value_(enabled ? kFirst : 1.0) {}

  bool enabled() const { return enabled_; }
  double value() const { return value_; }
  std::int64_t good_steps() const { return good_steps_; }
  void restore(double value, std::int64_t good_steps);

  /// Whether the step counts: false if its gradients overflowed.
  bool update(bool finite);

 private:
  static constexpr double kFirst = 65536.0;
  static constexpr double kLargest = 16777216.0;
  static constexpr std::int64_t kGrowthSteps = 2000;

  bool enabled_;
  double value_;
  std::int64_t good_steps_ = 0;
};

}  // namespace muster
