#pragma once

#include <cstdint>

namespace muster {

/// What happens when a step's loss or gradients are not finite.
struct NanPolicy {
  enum class Action {
    /// Ends the training with an error that names the step; the variables are those before the
    /// step.
    kStop,
    /// Leaves the update out and goes on with the next batch.
    kSkipBatch,
    /// Goes back to the last checkpoint, inputs too, and leaves the batch out when it comes again.
    kRollBack,
  };
  Action action = Action::kStop;
  /// After this many, the next one ends the training.
  std::int64_t limit = 10;
};

}  // namespace muster
