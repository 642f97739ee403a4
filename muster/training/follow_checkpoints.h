#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "muster/base/torch_fwd.h"
#include "muster/engine/run_config.h"

namespace muster {

struct FollowCheckpointsOptions {
  /// The run's last step: with its checkpoint the following ends. Not set: when the run does.
  std::optional<std::int64_t> last_step{};
  /// Between the begins of two evaluations, at least; the last checkpoint always gets its own.
  std::chrono::seconds throttle_secs{0};
};

/// For an evaluation written by hand, beside a training: calls the function with the newest
/// checkpoint of config.model_dir whenever there is a new one, which is kept while it works. Ends
/// with the last checkpoint: that of last_step, or when the run's chief has said that it is over;
/// or when the function returns false.
///
/// Throws what the function throws; Unavailable when no new checkpoint comes for
/// session_creation_timeout_secs; NotFound when the run ends without one; Interrupted after a
/// signal.
void follow_checkpoints(const RunConfig& config, const FollowCheckpointsOptions& options,
                        const std::function<bool(const Path& checkpoint)>& evaluate);

/// Gives a module the values that a DistributedSession saved of one like it. Throws NotFound,
/// naming what the checkpoint lacks, and InvalidArgument, naming the variable and both shapes; then
/// nothing is changed.
void load_checkpoint(const Path& checkpoint, const std::shared_ptr<torch::nn::Module>& module);

}  // namespace muster
