#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/orchestration/tuning/trial.h"

namespace muster::tuning {

/// Metrics that a trial has written so far.
struct TrialMetrics {
  /// The metric, by step; of several values of a step, the last.
  std::vector<Measurement> measurements{};
  /// The last value of every other scalar, by `folder/tag`, or the tag alone in the job-dir itself.
  std::map<std::string, double> others{};
};

/// Reads the metric with this tag: from the lines of `metric_file` (cloudml-hypertune's
/// CLOUD_ML_HP_METRIC_FILE) if there is one, else from the event files in the job-dir and the
/// folders in it. `FOLDER:TAG` names the folder; else one of an evaluation (`eval`, `eval_NAME`) is
/// preferred. Nothing measured is no error here. Throws FailedPrecondition where folders have the
/// same tag and none is named, and DataLoss for a damaged file.
TrialMetrics read_trial_metrics(const Path& job_dir, const Path& metric_file,
                                const std::string& tag);

}  // namespace muster::tuning
