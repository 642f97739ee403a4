#pragma once

#include <string>

#include "muster/orchestration/process/task_process.h"
#include "muster/orchestration/tuning/study_store_internal.h"
#include "muster/orchestration/tuning/trial.h"

namespace muster::tuning {

/// "was killed by signal 9", "exited with status 1".
std::string words_of(const process::EndOfProcess& end);

/// Reads the metrics of a trial whose program has ended well, and makes it succeeded, or failed
/// with the reason. `parent` is the trial that it continues, if any.
void take_metrics(Trial& trial, const Trial* parent, const HyperparameterSpec& spec,
                  const StudyStore& store);

/// The reason of a trial whose program has failed, with its last words.
std::string failure_of(const Trial& trial, const process::EndOfProcess& end,
                       const StudyStore& store);

}  // namespace muster::tuning
