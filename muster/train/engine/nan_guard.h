#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "muster/data/features/batch.h"
#include "muster/train/engine/train_options.h"

namespace muster {

/// Applies a NanPolicy: counts the steps whose loss or gradients are not finite, tells why, and
/// knows the batches that are skipped. Belongs to the loop's thread.
class NanGuard {
 public:
  /// Where steps are made: it decides what an error advises.
  enum class Steps { kOnHost, kOnHostOfSeveral, kOnDevice };

  NanGuard(const NanPolicy& policy, Steps steps) : policy_(policy), steps_(steps) {}

  /// Steps that were not finite so far.
  std::int64_t bad_steps() const { return bad_steps_; }
  void set_bad_steps(std::int64_t count) { bad_steps_ = count; }

  /// Looks for the cause in the batches of a step that was not finite.
  void inspect(std::span<const std::optional<Batch>> batches);
  /// Throws Aborted: `what`, "loss" or "gradient", of this step is not finite.
  [[noreturn]] void stop_for(std::string_view what, std::int64_t step) const;
  /// The same where the policy allows no such step.
  void stop_if_none_allowed(std::string_view what, std::int64_t step) const;
  /// Counts a bad step, which has changed nothing, and logs what becomes of it: kSkipBatch or
  /// kRollBack. Throws Aborted where it is one too many.
  NanPolicy::Action count(std::string_view what, std::int64_t step);

  /// The batch of this number, counted from the first that was taken, is skipped when it comes
  /// again after a roll-back.
  void skip_batch(std::int64_t number) { skipped_.insert(number); }
  bool skips_batch(std::int64_t number) const { return skipped_.contains(number); }

 private:
  std::string cause() const;

  const NanPolicy policy_;
  const Steps steps_;
  std::int64_t bad_steps_ = 0;
  /// The first number of the last bad step's batches that is not finite; empty where all are.
  std::string bad_input_;
  std::set<std::int64_t> skipped_;
};

}  // namespace muster
