#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/orchestration/jobs/job_store.h"
#include "muster/orchestration/tuning/study.h"

namespace muster::cli {

/// The flags that all commands of `muster jobs` have.
struct JobsFlags {
  std::string jobs_dir{};
  std::string machines{};
};

using SharedJobsFlags = std::shared_ptr<JobsFlags>;

SharedJobsFlags add_jobs_flags(CLI::App& command);

/// The folder of the flags, whose supervisor is this program.
jobs::JobStore job_store(const JobsFlags& flags);

/// How logs are followed.
struct FollowOptions {
  /// Task to which the lines are restricted; empty for all tasks.
  std::string task_name{};
  double polling_interval = 0.1;
};

/// Prints the lines of a job until it is over, or until Ctrl-C, and returns the exit status: 0 if
/// it SUCCEEDED, else 1.
int follow_job(const jobs::JobStore& store, const std::string& name, const FollowOptions& options);

/// Says that a job was submitted and what may be typed next, or prints its lines until it is over
/// and ends this program with the status of follow_job().
void tell_submitted(const jobs::JobStore& store, const std::string& name, bool stream_logs);

/// "a=1,b=2" as a map. Throws UsageError, naming the flag.
std::map<std::string, std::string> parse_labels(const char* flag, const std::string& text);

/// The file of this program.
std::string own_program();

/// The environment of this process, as NAME=value.
std::vector<std::string> own_environment();

void add_jobs_submit(CLI::App& command);
void add_submit_prediction(CLI::App& command);

/// Results so far of a job that predicts, as lines of YAML or as a table. Empty before it has
/// counted its instances.
std::string prediction_output_yaml(const jobs::Job& job);
std::vector<std::pair<std::string, std::string>> prediction_output_fields(const jobs::Job& job);

/// The study of a job with hyperparameters. Nothing for any other job, before the study has begun,
/// and for one that cannot be read, which the log then says.
std::optional<tuning::Study> study_of(const jobs::Job& job);
/// The study as Cloud ML Engine's `trainingOutput`, a JSON object; trials best first.
std::string training_output_json(const tuning::Study& study);
/// Its results so far, for a table.
std::vector<std::pair<std::string, std::string>> training_output_fields(const tuning::Study& study);

}  // namespace muster::cli
