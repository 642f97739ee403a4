#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/train/engine/run_config.h"
#include "muster/train/estimator/run_records.h"

namespace muster::internal {

/// Record of the run that begins now, made from this process and its configuration.
RunRecord record_of_this_process(const RunConfig& config);

/// The files that the words of a command line name: a word, what stands after its '=', and the
/// parts between commas. Patterns are expanded, and folders passed over.
std::vector<RunRecord::File> files_named_by(const std::vector<std::string>& arguments);

/// Calls `act`. The record is a help for people: where it cannot be written, training continues,
/// and the log says why.
void try_to_record(const Path& model_dir, const std::function<void()>& act);

}  // namespace muster::internal
