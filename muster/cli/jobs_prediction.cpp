// `muster jobs submit prediction`: gcloud's flags, for a job that is `muster batch-predict`.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/base/object_store.h"
#include "muster/cli/command.h"
#include "muster/cli/jobs.h"
#include "muster/cli/jobs_back_end.h"
#include "muster/cli/saved_model_argument.h"
#include "muster/cli/torch_program.h"
#include "muster/orchestration/jobs/machines.h"
#include "muster/serving/batch/batch_shard.h"
#include "muster/serving/codec/model_folder.h"

namespace muster::cli {
namespace {

using jobs::Job;
using jobs::PredictionInput;
using jobs::Submission;

struct PredictionFlags {
  SharedJobsFlags common{};
  BackEndFlags back_end{};
  std::string name{};
  std::string machine_type{};
  std::string model_dir{};
  std::string model{};
  std::string version{};
  std::string models_dir = "models";
  std::string data_format{};
  std::vector<std::string> input_paths{};
  std::string output_path{};
  std::string output_format = "json";
  std::string region{};
  std::string runtime_version{};
  std::string signature_name{};
  std::string key_field{};
  std::string labels{};
  std::int64_t max_worker_count = 10;
  std::int64_t batch_size = 64;
  double save_secs = 2;
  bool stream_logs = false;
  std::vector<std::string> ignored{};
};

// "tf-record" is TF_RECORD in the API.
std::string api_word(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return word;
}

// The folder of a version of a model that `muster versions` has.
Path version_folder(const PredictionFlags& flags) {
  const serving::ModelFolder folder(flags.models_dir);
  const serving::ModelRecord model = folder.model(flags.model);
  const std::string name = flags.version.empty() ? model.default_version : flags.version;
  if (name.empty()) {
    throw FailedPrecondition("the model {} has no version; make one with `muster versions create`",
                             flags.model);
  }
  return Path(flags.models_dir) / flags.model /
         std::to_string(folder.version(flags.model, name).number);
}

// A path of a store, or one as pods see it, which need not exist on this host.
std::string path_of_pods(const char* flag, const std::string& word) {
  if (word.find("://") == std::string::npos && !word.starts_with('/')) {
    throw UsageError("{}: in Kubernetes a path is one of a store or of a --volume, /data/...: {}",
                     flag, word);
  }
  return word;
}

Path model_of(const PredictionFlags& flags) {
  if (flags.model_dir.empty() == flags.model.empty()) {
    throw UsageError("give one of --model-dir, a SavedModel, and --model, a name in --models-dir");
  }
  if (!flags.version.empty() && flags.model.empty()) {
    throw UsageError("--version goes with --model");
  }
  if (flags.back_end.abilities().runs_image) {
    if (flags.model_dir.empty()) {
      throw UsageError("--model is a name on this host; give pods the SavedModel by --model-dir");
    }
    return path_of_pods("--model-dir", flags.model_dir);
  }
  const Path folder = flags.model.empty() ? Path(flags.model_dir) : version_folder(flags);
  return absolute_path(find_saved_model(folder));
}

// For a process that is started elsewhere.
std::string absolute_word(const std::string& word) {
  return absolute_path(strip_file_scheme(word)).string();
}

// Whatever can be known to be wrong is said before anything is submitted.
PredictionInput input_of(const PredictionFlags& flags) {
  PredictionInput input;
  input.uri = model_of(flags).string();
  input.model_name = flags.model;
  input.version_name = flags.version;
  input.data_format = api_word(std::string(name_of(serving::parse_batch_input(flags.data_format))));
  input.output_data_format =
      api_word(std::string(name_of(serving::parse_batch_output(flags.output_format))));
  const bool is_here = !flags.back_end.abilities().runs_image;
  const auto path_of = [&](const char* flag, const std::string& word) {
    return is_here ? absolute_word(word) : path_of_pods(flag, word);
  };
  for (const std::string& path : flags.input_paths) {
    input.input_paths.push_back(path_of("--input-paths", path));
  }
  if (is_here) serving::input_files_of(input.input_paths);
  input.output_path = path_of("--output-path", flags.output_path);
  input.region = flags.region;
  input.runtime_version = flags.runtime_version;
  input.signature_name = flags.signature_name;
  input.max_worker_count = flags.max_worker_count;
  input.batch_size = flags.batch_size;
  return input;
}

std::vector<std::string> command_of(const PredictionInput& input, const PredictionFlags& flags) {
  // In an image the program is where the image has it.
  std::vector<std::string> command{
      flags.back_end.abilities().runs_image ? "muster" : own_program(),
      "batch-predict",
      "--model-dir=" + input.uri,
      "--data-format=" + input.data_format,
      "--output-format=" + std::string(input.output_data_format == "CSV" ? "csv" : "json"),
      "--output-path=" + input.output_path,
      fmt::format("--max-worker-count={}", input.max_worker_count),
      fmt::format("--batch-size={}", input.batch_size),
      fmt::format("--save-secs={}", flags.save_secs)};
  if (!input.signature_name.empty()) {
    command.push_back("--signature-name=" + input.signature_name);
  }
  if (!flags.key_field.empty()) command.push_back("--key-field=" + flags.key_field);
  for (const std::string& path : input.input_paths) {
    command.push_back("--input-paths=" + path);
  }
  return command;
}

// As many processes as it has at a time, each with a model of a size that is not known here.
jobs::Resources machine_of(const PredictionFlags& flags, const jobs::MachineTable& machines) {
  if (!flags.machine_type.empty()) {
    const auto type = machines.type(flags.machine_type);
    if (!type) throw UsageError("--machine-type: there is no machine type {}", flags.machine_type);
    return *type;
  }
  const double cpus = std::min(static_cast<double>(flags.max_worker_count), machines.host.cpus);
  return {.cpus = cpus, .memory_gb = std::min(cpus, machines.host.memory_gb)};
}

Submission submission_of(const PredictionFlags& flags) {
  Submission submission;
  for (const std::string& flag : flags.ignored) {
    submission.warnings.push_back(flag + " has no meaning on this host");
  }
  Job& job = submission.job;
  jobs::check_job_name(flags.name);
  job.job_id = flags.name;
  job.labels = parse_labels("--labels", flags.labels);
  jobs::check_labels(job.labels);
  job.prediction_input = input_of(flags);
  job.local.command = command_of(*job.prediction_input, flags);
  job.local.working_directory = std::filesystem::current_path();
  job.local.needs = machine_of(flags, machines_of(flags.back_end, *flags.common));
  submission.roles = {{.type = job.local.chief, .count = 1, .each = job.local.needs}};
  lay_back_end(flags.back_end, submission);
  return submission;
}

void submit_prediction(const PredictionFlags& flags) {
  check_back_end(flags.back_end);
  if (!flags.back_end.abilities().runs_image) torch_program("jobs submit prediction");
  Submission submission = submission_of(flags);
  if (!hand_over(flags.back_end, *flags.common, submission)) return;
  tell_submitted(job_store(*flags.common), flags.name, flags.stream_logs);
}

void add_input_flags(CLI::App& command, PredictionFlags& flags) {
  command.add_option("--model-dir", flags.model_dir,
                     "A SavedModel, or a folder of numbered ones, of which the highest is used");
  command.add_option("--model", flags.model, "A model of `muster models`");
  command.add_option("--version", flags.version, "Its version; the default one without it");
  command
      .add_option("--models-dir", flags.models_dir, "The folder of the models (MUSTER_MODELS_DIR)")
      ->envname("MUSTER_MODELS_DIR")
      ->capture_default_str();
  command
      .add_option("--data-format", flags.data_format,
                  "text or json (lines), tf-record, tf-record-gzip or csv")
      ->required();
  command
      .add_option("--input-paths", flags.input_paths,
                  "Files of instances, separated by commas; * and ? match names")
      ->required()
      ->delimiter(',');
  command
      .add_option("--output-path", flags.output_path,
                  "The folder for prediction.results-* and prediction.errors_stats-*")
      ->required();
  command.add_option("--output-format", flags.output_format, "json (lines) or csv")
      ->capture_default_str();
  command.add_option("--signature-name", flags.signature_name,
                     "The signature to run (the only one, or serving_default)");
  command.add_option("--key-field", flags.key_field,
                     "A field of each instance that is copied to its prediction");
  command
      .add_option("--save-secs", flags.save_secs,
                  "Seconds between saves: the most work that a kill loses")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  command.add_option("--batch-size", flags.batch_size, "Instances per run of the model")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--max-worker-count", flags.max_worker_count,
                  "Shards; as many processes at a time as there are processors, at most these")
      ->capture_default_str()
      ->check(CLI::Range(1, 99'999));
}

void add_cloud_flags(CLI::App& command, const std::shared_ptr<PredictionFlags>& flags) {
  const auto keep = [&](const char* name, std::string PredictionFlags::*field) {
    command
        .add_option_function<std::string>(
            name,
            [flags, name, field](const std::string& value) {
              if (field != nullptr) (*flags).*field = value;
              flags->ignored.emplace_back(name);
            },
            "")
        ->group("");
  };
  keep("--region", &PredictionFlags::region);
  keep("--runtime-version", &PredictionFlags::runtime_version);
  keep("--accelerator-type", nullptr);
  keep("--accelerator-count", nullptr);
}

// Sum of the counts of shards; the job's result once it has ended.
std::optional<serving::BatchCounts> counts_of(const Job& job) {
  const Path output = job.prediction_input->output_path;
  try {
    const serving::BatchJob batch = serving::read_batch_job(output);
    if (batch.result) return batch.result;
    serving::BatchCounts sum;
    for (std::uint64_t shard = 0; shard < batch.shards; ++shard) {
      if (const auto state = serving::read_shard_state(output, shard)) sum += state->counts;
    }
    return sum;
  } catch (const NotFound&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> prediction_output_fields(const Job& job) {
  const auto counts = counts_of(job);
  if (!counts) return {};
  return {{"predictionCount", std::to_string(counts->predictions)},
          {"errorCount", std::to_string(counts->errors)},
          {"nodeHours", fmt::format("{:.4f}", counts->seconds / 3600)}};
}

std::string prediction_output_yaml(const Job& job) {
  const auto counts = counts_of(job);
  if (!counts) return "";
  return fmt::format(
      "predictionOutput:\n  errorCount: '{}'\n  nodeHours: {:.4f}\n  predictionCount: '{}'\n",
      counts->errors, counts->seconds / 3600, counts->predictions);
}

void add_submit_prediction(CLI::App& command) {
  const auto flags = std::make_shared<PredictionFlags>();
  flags->common = add_jobs_flags(command);
  command.add_option("job", flags->name, "Its name: a letter, then letters, digits, underscores")
      ->required();
  add_input_flags(command, *flags);
  add_back_end_flags(command, flags->back_end);
  command.add_option("--machine-type", flags->machine_type,
                     "What the job takes of its host (a processor and 1 GB for each worker)");
  command.add_option("--labels", flags->labels, "KEY=VALUE,...");
  command.add_flag("--stream-logs", flags->stream_logs, "Print its logs until it ends");
  add_cloud_flags(command, flags);
  command.callback([flags] {
    try {
      submit_prediction(*flags);
    } catch (const UsageError&) {
      throw;
    } catch (const InvalidArgument& error) {
      throw UsageError("{}", error.what());
    }
  });
}

}  // namespace muster::cli
