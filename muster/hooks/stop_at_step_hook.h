#pragma once

#include <optional>

#include "muster/engine/hook.h"

namespace muster {

/// Exactly one of the two is set.
struct StopAtStepOptions {
  /// So many steps from where the run begins; a roll-back does not move the end.
  std::optional<std::int64_t> num_steps{};
  /// Up to this global step.
  std::optional<std::int64_t> last_step{};
};

/// Ends a run at a global step. A run that is there already is asked to stop before its first step.
class StopAtStepHook : public Hook {
 public:
  /// Throws InvalidArgument unless exactly one is set and positive.
  explicit StopAtStepHook(const StopAtStepOptions& options);

  void begin(Session& session) override;
  void after_create_session(Session& session) override;
  void after_run(Session& session) override;

 private:
  StopAtStepOptions options_;
  std::optional<std::int64_t> last_step_;
};

}  // namespace muster
