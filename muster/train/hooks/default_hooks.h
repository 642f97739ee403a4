#pragma once

#include <cstdint>
#include <optional>

#include "muster/train/engine/train_options.h"

namespace muster {

/// Default hooks of a training run, as the configuration says, with the user's: the log of loss and
/// rate, the progress line, summaries, checkpoints. A CheckpointSaverHook among the user's takes
/// the place of ours, and the saving listeners join the first one. Throws InvalidArgument for
/// listeners where no checkpoints are saved.
Hooks default_hooks(const RunConfig& config, const TrainOptions& options,
                    std::optional<std::int64_t> last_step);

}  // namespace muster
