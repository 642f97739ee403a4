#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace muster {

/// Parts of the time that a run of training takes in its loop's thread.
enum class StepPart { kCompute, kInput, kSum, kSave, kEvaluate };
inline constexpr std::size_t kStepParts = 5;
/// "compute", "input", "sum", "save", "evaluate".
const char* name_of(StepPart part);

/// Where the time of a run goes: the loop's thread says which part it is in, and another thread may
/// ask for the sums.
class StepTimes {
 public:
  using Clock = std::chrono::steady_clock;

  /// The loop is in a part of its work while this lives, and in the one before afterwards. Does
  /// nothing without times.
  class In {
   public:
    In(StepTimes* times, StepPart part) : times_(times) {
      if (times_ != nullptr) before_ = times_->change(part);
    }
    ~In() {
      if (times_ != nullptr) times_->change(before_);
    }
    In(const In&) = delete;
    In& operator=(const In&) = delete;

   private:
    StepTimes* const times_;
    StepPart before_ = StepPart::kCompute;
  };

  /// Time spent in each part up to now, that of the present one included.
  std::array<Clock::duration, kStepParts> totals() const;

  void set_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }

 private:
  StepPart change(StepPart part);

  mutable std::mutex mutex_;
  std::array<Clock::duration, kStepParts> totals_{};
  StepPart part_ = StepPart::kCompute;
  Clock::time_point since_ = Clock::now();
  std::atomic<std::int64_t> step_{0};
};

/// Shares of the parts in the time since the last call, in percent.
class StepShares {
 public:
  /// `times` outlives it.
  explicit StepShares(const StepTimes& times) : times_(times), last_(times.totals()) {}

  std::array<double, kStepParts> next();

 private:
  const StepTimes& times_;
  std::array<StepTimes::Clock::duration, kStepParts> last_;
};

}  // namespace muster
