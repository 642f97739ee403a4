// A study as what came out of its job: Cloud ML Engine's `trainingOutput`.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/jobs.h"
#include "muster/orchestration/jobs/job.h"
#include "muster/orchestration/tuning/ranking.h"

namespace muster::cli {
namespace {

using nlohmann::ordered_json;
using tuning::Study;
using tuning::Trial;

// "2026-03-01T10:04:11Z", as all times of jobs.
std::string trial_time_text(double seconds) {
  return jobs::to_text(jobs::Time(
      std::chrono::duration_cast<jobs::Time::duration>(std::chrono::duration<double>(seconds))));
}

std::string completed_count(const Study& study) {
  return std::to_string(std::ranges::count_if(study.trials, [](const Trial& trial) {
    return trial.state == tuning::TrialState::kSucceeded;
  }));
}

ordered_json trial_output(const Trial& trial) {
  ordered_json written = ordered_json::parse(tuning::to_json(trial));
  // Cloud ML Engine's times are texts.
  written["startTime"] = trial_time_text(trial.start_time);
  if (trial.end_time > 0) written["endTime"] = trial_time_text(trial.end_time);
  return written;
}

}  // namespace

std::optional<Study> study_of(const jobs::Job& job) {
  const Path folder = job.local.working_directory / job.training_input.job_dir;
  if (job.prediction_input || job.training_input.job_dir.empty()) return std::nullopt;
  try {
    if (!tuning::has_study(folder)) return std::nullopt;
    return tuning::read_study(folder);
  } catch (const Error& error) {
    log::warning("the study of the job {} cannot be read: {}", job.job_id, error.what());
    return std::nullopt;
  }
}

std::string training_output_json(const Study& study) {
  ordered_json written{{"completedTrialCount", completed_count(study)},
                       {"isHyperparameterTuningJob", true},
                       {"hyperparameterMetricTag", study.spec.metric_tag},
                       {"trials", ordered_json::array()}};
  for (const Trial* trial : tuning::ranked(study))
    written["trials"].push_back(trial_output(*trial));
  return written.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::vector<std::pair<std::string, std::string>> training_output_fields(const Study& study) {
  std::vector<std::pair<std::string, std::string>> fields{
      {"completedTrialCount", completed_count(study)},
      {"hyperparameterMetricTag", study.spec.metric_tag}};
  if (const Trial* best = study.best()) {
    fields.insert(fields.end(),
                  {{"bestTrial", std::to_string(best->id)},
                   {"objectiveValue", fmt::format("{:.6g}", best->final_metric->value)},
                   {"trainingStep", std::to_string(best->final_metric->step)}});
  }
  return fields;
}

}  // namespace muster::cli
