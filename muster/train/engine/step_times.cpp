#include "muster/train/engine/step_times.h"

#include <numeric>
#include <utility>

namespace muster {

const char* name_of(StepPart part) {
  constexpr std::array<const char*, kStepParts> kNames = {"compute", "input", "sum", "save",
                                                          "evaluate"};
  return kNames[static_cast<std::size_t>(part)];
}

StepPart StepTimes::change(StepPart part) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  totals_[static_cast<std::size_t>(part_)] += now - since_;
  since_ = now;
  return std::exchange(part_, part);
}

std::array<StepTimes::Clock::duration, kStepParts> StepTimes::totals() const {
  const std::lock_guard lock(mutex_);
  auto totals = totals_;
  totals[static_cast<std::size_t>(part_)] += Clock::now() - since_;
  return totals;
}

std::array<double, kStepParts> StepShares::next() {
  const auto now = times_.totals();
  std::array<double, kStepParts> shares{};
  for (std::size_t i = 0; i < kStepParts; ++i) {
    shares[i] = std::chrono::duration<double>(now[i] - last_[i]).count();
  }
  last_ = now;
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share = sum > 0 ? 100.0 * share / sum : 0.0;
  return shares;
}

}  // namespace muster
