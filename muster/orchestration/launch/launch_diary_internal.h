#pragma once

#include <memory>
#include <string>

#include "muster/orchestration/launch/launcher.h"
#include "muster/orchestration/launch/merged_log.h"
#include "muster/orchestration/launch/training_log.h"

namespace muster::launch {

/// The entry of this launch in the training log; null where the options name none.
std::unique_ptr<TrainingLog> open_training_log(const LaunchOptions& options);

/// Text of the entry when the launch is over: status, time, and the last results that were
/// printed.
std::string outcome_text(int status, double seconds, const MergedLog& output);

}  // namespace muster::launch
