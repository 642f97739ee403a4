// `muster batch-predict`: plans a job without libtorch and has workers of muster-torch do it.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/base/thread_pool.h"
#include "muster/cli/batch_workers.h"
#include "muster/cli/batch_workspace.h"
#include "muster/cli/command.h"
#include "muster/cli/limit_flags.h"
#include "muster/cli/saved_model_argument.h"
#include "muster/cli/torch_program.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/batch/batch_shard.h"
#include "muster/serving/batch/prediction_step.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/codec/signature_choice.h"

namespace muster::cli {
namespace {

using serving::BatchCounts;
using serving::BatchJob;

struct BatchPredictFlags {
  std::string model_dir{};
  std::vector<std::string> input_paths{};
  std::string data_format{};
  std::string output_path{};
  std::string output_format = "json";
  std::string signature_name{};
  std::string tag_set = "serve";
  std::string key_field{};
  std::int64_t batch_size = 64;
  std::uint64_t max_worker_count = 10;
  double save_secs = 2;
  bool as_json = false;
  std::string region{};
  std::string runtime_version{};
  executor::RunLimits limits{};
};

template <typename Parse>
auto format_of(const char* flag, const std::string& word, Parse&& parse) {
  try {
    return parse(word);
  } catch (const InvalidArgument& error) {
    throw UsageError("{}: {}", flag, error.message());
  }
}

/// Job that the flags describe, not checked yet.
BatchJob job_of(const BatchPredictFlags& flags, std::uint64_t workers) {
  BatchJob job;
  job.input = format_of("--data-format", flags.data_format, serving::parse_batch_input);
  job.output = format_of("--output-format", flags.output_format, serving::parse_batch_output);
  job.tags = tags_of(flags.tag_set);
  job.key_field = flags.key_field;
  job.batch_size = flags.batch_size;
  job.shards = flags.max_worker_count;
  job.threads_per_worker = static_cast<std::int64_t>(
      std::max<std::size_t>(1, ThreadPool::available_processors() / workers));
  return job;
}

void print_result(const BatchCounts& result, const std::string& output_path, bool as_json) {
  // ML Engine's PredictionOutput, in which counts are strings.
  const double hours = result.seconds / 3600;
  if (as_json) {
    fmt::print(
        "{{\"predictionCount\": \"{}\", \"errorCount\": \"{}\", \"nodeHours\": {:.4f}, "
        "\"outputPath\": {}}}\n",
        result.predictions, result.errors, hours, serving::json_string_lossy(output_path));
    return;
  }
  fmt::print("errorCount: '{}'\nnodeHours: {:.4f}\noutputPath: {}\npredictionCount: '{}'\n",
             result.errors, hours, output_path, result.predictions);
}

BatchCounts sum_of_shards(const Path& output_path, const BatchJob& job) {
  BatchCounts sum;
  for (std::uint64_t shard = 0; shard < job.shards; ++shard) {
    const auto state = serving::read_shard_state(output_path, shard);
    if (!state) throw Internal("shard {} has no state, though it is published", shard);
    sum += state->counts;
  }
  return sum;
}

void run_batch_predict(const BatchPredictFlags& flags) {
  const std::uint64_t workers =
      std::min<std::uint64_t>(flags.max_worker_count, ThreadPool::available_processors());
  BatchJob job = job_of(flags, workers);
  const Path program = torch_program("batch-predict");
  for (const auto& [flag, value] : {std::pair{"--region", &flags.region},
                                    std::pair{"--runtime-version", &flags.runtime_version}}) {
    if (!value->empty()) log::info("{} {} is ignored: this host predicts", flag, *value);
  }
  using serving::in_step;
  using serving::kLoadStep;
  job.model_dir =
      in_step(kLoadStep, [&] { return absolute_path(find_saved_model(flags.model_dir)); });
  const graph::SavedModel saved =
      in_step(kLoadStep, [&] { return graph::read_saved_model(job.model_dir); });
  const graph::MetaGraph& meta = in_step(kLoadStep, [&]() -> const graph::MetaGraph& {
    return graph::find_meta_graph(saved, job.tags);
  });
  job.signature = in_step(serving::kInputsStep,
                          [&] { return serving::choose_signature(meta, flags.signature_name); });
  job.model_files = serving::model_files_of(job.model_dir);
  job.files = serving::input_files_of(flags.input_paths);
  const BatchWorkspace workspace(flags.output_path);
  const Path& output_path = workspace.folder();
  // By itself: arguments are made in any order, and the job is moved out of.
  const graph::SignatureDef& signature = graph::find_signature(meta, job.signature);
  // It loads libtorch while the instances are counted.
  WorkerProgram worker_program(program);
  job = serving::open_batch_job(output_path, std::move(job), signature);
  if (!job.result) {
    run_batch_workers(
        output_path, job,
        {.workers = workers,
         .save_every = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * flags.save_secs)),
         .limits = flags.limits},
        worker_program);
    serving::finish_batch_job(output_path, job, sum_of_shards(output_path, job),
                              serving::files_of_shards(output_path, job));
  } else {
    log::info("this batch prediction had ended before: {} has its results", flags.output_path);
  }
  workspace.publish();
  print_result(*job.result, flags.output_path, flags.as_json);
  if (job.result->errors == 0) return;
  const std::string where = (Path(flags.output_path) / "prediction.errors_stats-*").string();
  if (job.result->predictions == 0) {
    throw InvalidArgument("no instance could be answered; {} say why", where);
  }
  log::warning("{} of {} instances could not be answered; {} name them", job.result->errors,
               job.records(), where);
}

}  // namespace

void add_batch_predict(CLI::App& command) {
  const auto flags = std::make_shared<BatchPredictFlags>();
  command
      .add_option("--model-dir,--model_dir", flags->model_dir,
                  "A SavedModel, or a folder of numbered ones, of which the highest is used")
      ->required();
  command
      .add_option("--input-paths,--input_paths", flags->input_paths,
                  "Files of instances, separated by commas; * and ? match names")
      ->required()
      ->delimiter(',');
  command
      .add_option("--data-format,--data_format", flags->data_format,
                  "json (lines, also called text), tf-record, tf-record-gzip or csv")
      ->required();
  command
      .add_option("--output-path,--output_path", flags->output_path,
                  "The folder for prediction.results-* and prediction.errors_stats-*; one in a "
                  "store is filled at the end")
      ->required();
  command
      .add_option("--output-format,--output_format,--output-data-format", flags->output_format,
                  "json (lines) or csv")
      ->capture_default_str();
  command.add_option("--signature-name,--signature_name", flags->signature_name,
                     "The signature to run (the only one, or serving_default)");
  command.add_option("--tag_set,--tag-set,--tag", flags->tag_set,
                     "The tags of the graph, separated by commas (serve); '' is none");
  command.add_option("--key-field,--key_field", flags->key_field,
                     "A field of each instance that is copied to its prediction");
  command
      .add_option("--batch-size,--batch_size", flags->batch_size, "Instances per run of the model")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--max-worker-count,--max_worker_count", flags->max_worker_count,
                  "Shards; as many processes at a time as there are processors, at most these")
      ->capture_default_str()
      ->check(CLI::Range(1, 99'999));
  command
      .add_option("--save-secs,--save_secs", flags->save_secs,
                  "Seconds between saves: the most work that a kill loses")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  command.add_option("--region", flags->region, "Ignored; this host predicts");
  command.add_option("--runtime-version", flags->runtime_version, "Ignored");
  add_json_flag(command, flags->as_json, "The counts as one JSON object");
  add_limit_flags(command, flags->limits);
  command.callback([flags] { run_batch_predict(*flags); });
}

}  // namespace muster::cli
