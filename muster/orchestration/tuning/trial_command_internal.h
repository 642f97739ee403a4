#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/orchestration/tuning/hyperparameter_spec.h"
#include "muster/orchestration/tuning/trial.h"
#include "muster/orchestration/tuning/trial_scheduler_internal.h"

namespace muster::tuning {

/// Throws InvalidArgument for no program, and for arguments with a flag that the study gives to
/// every trial.
void check_command(const std::vector<std::string>& command, const HyperparameterSpec& spec);

/// The steps of a whole training: the value of the program's flag `steps_flag`. Throws
/// InvalidArgument, with the field that needs it, where it is missing.
std::int64_t whole_steps(const std::vector<std::string>& command, const std::string& steps_flag,
                         const char* field);

/// The steps that a trial trains for: the value of the study's `stepsParameter`, or of the
/// program's flag --train-steps or --max-steps. Nothing where neither says it.
std::optional<std::int64_t> planned_steps(const std::vector<std::string>& command,
                                          const HyperparameterSpec& spec, const Values& values);

/// The arguments of a trial's program, without its name.
std::vector<std::string> trial_arguments(const std::vector<std::string>& command,
                                         const Trial& trial, const std::optional<StepLimit>& limit,
                                         const Path& folder);

/// NAME=value, as Cloud ML Engine sets them for a trial.
std::vector<std::string> trial_environment(const Trial& trial, const Path& metric_file,
                                           bool will_pause);

}  // namespace muster::tuning
