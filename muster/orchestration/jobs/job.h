#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::jobs {

/// Cloud ML Engine's states of a job. A job goes from QUEUED by PREPARING to RUNNING and ends as
/// SUCCEEDED, FAILED, or by CANCELLING as CANCELLED.
enum class State {
  kQueued,
  kPreparing,
  kRunning,
  kSucceeded,
  kFailed,
  kCancelling,
  kCancelled,
};

/// "QUEUED".
std::string_view name_of(State state);
/// Throws InvalidArgument.
State parse_state(std::string_view name);
/// Whether a job stays in it.
bool is_final(State state);

using Time = std::chrono::system_clock::time_point;

/// "2026-03-01T10:04:11.532000Z".
std::string to_text(Time time);
/// Parses such a text. Throws InvalidArgument.
Time parse_time(std::string_view text);

struct Accelerator {
  std::string type{};
  std::int64_t count = 0;

  bool operator==(const Accelerator&) const = default;
};

/// Machines that a job requests for one of its roles.
struct RoleInput {
  std::string machine_type{};
  std::optional<std::int64_t> count{};
  Accelerator accelerator{};

  bool operator==(const RoleInput&) const = default;
};

/// `trainingInput` of a job.
struct TrainingInput {
  /// "STANDARD_1"; empty means BASIC.
  std::string scale_tier{};
  RoleInput master{};
  RoleInput worker{};
  RoleInput parameter_server{};
  RoleInput evaluator{};
  /// `pythonModule`: the program.
  std::string module_name{};
  std::vector<std::string> args{};
  std::string job_dir{};
  bool use_chief = false;
  std::optional<std::chrono::seconds> max_running_time{};
  std::optional<std::chrono::seconds> max_wait_time{};
  /// 0 to 1000; higher ones start first.
  std::int64_t priority = 0;
  /// Fields that mean something in a cloud alone, as a JSON object, kept as they were given.
  std::string cloud_fields = "{}";

  bool operator==(const TrainingInput&) const = default;
};

/// `predictionInput` of a job: the files that it answers, and with what.
struct PredictionInput {
  /// The SavedModel; also where `model_name` or `version_name` led to.
  std::string uri{};
  /// As given: "census", or "models/census/versions/v1".
  std::string model_name{};
  std::string version_name{};
  /// The API's words: "JSON", "TF_RECORD".
  std::string data_format{};
  std::string output_data_format{};
  std::vector<std::string> input_paths{};
  std::string output_path{};
  std::string region{};
  std::string runtime_version{};
  std::string signature_name{};
  std::int64_t max_worker_count = 10;
  std::int64_t batch_size = 64;

  bool operator==(const PredictionInput&) const = default;
};

/// Resources of a host that a job takes.
struct Resources {
  double cpus = 0;
  double memory_gb = 0;
  std::int64_t gpus = 0;

  bool operator==(const Resources&) const = default;
};

/// How a job runs on this host, and what became of it.
struct LocalRun {
  /// The program and its arguments, --job-dir among them.
  std::vector<std::string> command{};
  Path working_directory{};
  /// Where the program of the command was copied from when the job was submitted; empty: the
  /// command names it where it is.
  Path program_from{};
  /// One process without a cluster: the counts are 0.
  bool is_single = true;
  /// "master" or "chief".
  std::string chief = "master";
  std::int64_t workers = 0;
  std::int64_t ps = 0;
  std::int64_t evaluators = 0;
  /// Asked for each task of the role.
  std::int64_t master_gpus = 0;
  std::int64_t worker_gpus = 0;
  std::int64_t evaluator_gpus = 0;
  /// For all tasks together, no more than the host has.
  Resources needs{};
  /// How often one task is restarted in one attempt.
  std::int64_t most_restarts = 3;
  /// How long tasks may take to save and exit when the job is cancelled.
  std::chrono::milliseconds grace{6'000};
  /// The most that is kept of the log of one task.
  std::uint64_t log_bytes = std::uint64_t{64} << 20;

  /// URLs and commands that are told when the job has ended.
  std::vector<std::string> notices{};

  /// The GPUs that it was given.
  std::vector<std::string> gpus{};
  /// How often the tasks have been started, and how many of these were retries after an exit
  /// status that asked for one.
  std::int64_t attempts = 0;
  std::int64_t retries = 0;
  std::optional<int> exit_status{};

  bool operator==(const LocalRun&) const = default;
};

/// The back end that is this host.
inline constexpr const char* kLocalBackEnd = "local";

/// A job as it is kept.
struct Job {
  std::string job_id{};
  /// The name of the back end that runs it: "local", "slurm", "kubernetes".
  std::string back_end = kLocalBackEnd;
  State state = State::kQueued;
  Time create_time{};
  std::optional<Time> start_time{};
  std::optional<Time> end_time{};
  std::string error_message{};
  std::map<std::string, std::string> labels{};
  TrainingInput training_input{};
  /// Nothing if it trains.
  std::optional<PredictionInput> prediction_input{};
  LocalRun local{};
  /// The back end's own state of the job, as a JSON object; job.json has it under the back end's
  /// name.
  std::string block = "{}";

  bool operator==(const Job&) const = default;
};

/// Throws InvalidArgument unless it is a letter, then letters, digits and underscores, 128 at most.
void check_job_name(std::string_view name);

/// Throws InvalidArgument, naming the label: a key starts with a lower-case letter; both have
/// lower-case letters, digits, '_' and '-', 63 at most; 64 labels at most.
void check_labels(const std::map<std::string, std::string>& labels);

/// "standard-1", "STANDARD_1" and "SCALE_TIER_STANDARD_1" are one: the upper-case one.
std::string normalized_tier(std::string_view word);

}  // namespace muster::jobs
