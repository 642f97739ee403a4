#include "muster/train/engine/loss_scale.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster {

void LossScale::restore(double value, std::int64_t good_steps) {
  if (!enabled_) return;
  value_ = std::clamp(value, 1.0, kLargest);
  good_steps_ = good_steps;
}

bool LossScale::update(bool finite) {
  if (!finite) {
    if (value_ <= 1.0) {
      throw Aborted(
          "gradients overflow in float16 even with a loss scale of 1; use bfloat16 or float32");
    }
    value_ = value_ / 2;
    good_steps_ = 0;
    log::info("gradients overflowed in float16: the loss scale is now {}", value_);
    return false;
  }
  if (++good_steps_ >= kGrowthSteps) {
    value_ = std::min(value_ * 2, kLargest);
    good_steps_ = 0;
  }
  return true;
}

}  // namespace muster
