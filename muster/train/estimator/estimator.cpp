#include "muster/train/estimator/estimator.h"

#include <stdlib.h>
#include <torch/types.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/nn/device/devices.h"
#include "muster/nn/kernels/cpu_bfloat16.h"
#include "muster/train/engine/seed_streams.h"
#include "muster/train/engine/tensor_codec.h"
#include "muster/train/engine/tower_options.h"
#include "muster/train/engine/trainer.h"
#include "muster/train/estimator/evaluation.h"
#include "muster/train/estimator/evaluation_model.h"
#include "muster/train/estimator/learner.h"
#include "muster/train/estimator/predictor.h"
#include "muster/train/hooks/default_hooks.h"

namespace muster {
namespace {

void check(const EstimatorOptions& options) {
  if (!options.model) throw InvalidArgument("Estimator: the model factory is not set");
  if (options.optimizer.empty() && options.learner == nullptr)
    throw InvalidArgument("Estimator: no optimizer is given");
  const int clips = static_cast<int>(options.clip.value.has_value()) +
                    static_cast<int>(options.clip.norm.has_value()) +
                    static_cast<int>(options.clip.global_norm.has_value());
  if (clips > 1)
    throw InvalidArgument(
        "Estimator: at most one of clip's value, norm and global_norm may be set");
}

Path temporary_model_dir() {
  std::string name = (std::filesystem::temp_directory_path() / "muster-model-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw_errno(errno, "making a temporary model folder");
  log::warning("Using temporary folder as model directory: {}", name);
  return name;
}

void require_role(const RunConfig& config) {
  const std::string& type = config.cluster.task.task.type;
  if (type == job::kPs || type == job::kEvaluator) {
    throw FailedPrecondition(
        "Estimator::train is not for a task of type {}; use train_and_evaluate, which knows what "
        "each task does",
        type);
  }
  if (!config.cluster.task.is_alone() && !config.cluster.train_distribute) {
    throw FailedPrecondition(
        "{} makes this task {} of a cluster, and nothing says how its tasks train together: use "
        "train_and_evaluate, which chooses, or give RunConfig::cluster.train_distribute what makes "
        "a "
        "strategy",
        config.cluster.task.source, config.cluster.task.task.name());
  }
}

void check_training(const RunConfig& config, const InputFn& input_fn) {
  require_role(config);
  if (!input_fn) throw InvalidArgument("train: input_fn is not set");
}

// Estimators of the same run, such as those of a cluster's tasks, need not tell it again.
void log_once(const RunConfig& config) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (!told.insert(config.to_string()).second) return;
  log::info("Using config: {}", config.to_short_string());
  log::debug("All of it: {}", config.to_string());
}

}  // namespace

struct Estimator::Impl {
  EstimatorOptions options;
  RunConfig config;
  std::unique_ptr<EvaluationModel> evaluation_model;
  EvaluationEvents evaluation_events;
  bool has_warned_of_bfloat16 = false;

  // Where bfloat16 is slow, users wait without a reason to see.
  void warn_of_slow_bfloat16() {
    if (has_warned_of_bfloat16 || config.reproducibility.precision != ComputeType::kBfloat16)
      return;
    if (!tower_devices(config, options.model)[0].is_cpu()) return;
    const std::string obstacle = kernels::bfloat16_obstacle(kernels::cpu_bfloat16());
    if (obstacle.empty()) return;
    has_warned_of_bfloat16 = true;
    log::warning(
        "precision bfloat16 on the CPU: {}, and a step can take 20 times as long as with float32; "
        "use float32 here, or a GPU",
        obstacle);
  }

  EvaluationModel& model() {
    if (evaluation_model == nullptr) {
      evaluation_model = std::make_unique<EvaluationModel>(options, config);
    }
    return *evaluation_model;
  }

  EvaluationResult evaluate_loaded(const InputFn& input_fn, const EvaluateOptions& evaluate_options,
                                   const Path& output_dir) {
    return run_evaluation(model(), config, input_fn, evaluate_options, output_dir,
                          evaluation_events);
  }

  Path checkpoint_or_latest(const Path& path) const {
    if (!path.empty()) return resolve_checkpoint(path);
    const auto latest = muster::latest_checkpoint(config.model_dir);
    if (latest) return *latest;
    throw NotFound("there is no checkpoint in {}: train first, or name one with checkpoint_path",
                   config.model_dir.string());
  }
};

struct Predictions::Impl {
  std::unique_ptr<EvaluationModel> model;
  EstimatorOptions options;
  PredictOptions predict_options;
  std::unique_ptr<Iterator<Batch>> input;
  Features current{};
  std::int64_t next_row = 0;

  bool next_batch() {
    auto batch = input->next();
    if (!batch) return false;
    const c10::InferenceMode inference;
    current = model->call(*batch, Mode::kPredict).predictions;
    if (!predict_options.predict_keys.empty())
      current = select_predictions(current, predict_options.predict_keys);
    next_row = 0;
    return true;
  }
};

Predictions::Predictions(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Predictions::Predictions(Predictions&&) noexcept = default;
Predictions& Predictions::operator=(Predictions&&) noexcept = default;
Predictions::~Predictions() = default;

std::optional<Features> Predictions::next() {
  if (!impl_->predict_options.yield_single_examples) {
    if (!impl_->next_batch()) return std::nullopt;
    return std::move(impl_->current);
  }
  while (impl_->next_row >= impl_->current.batch_size()) {
    if (!impl_->next_batch()) return std::nullopt;
  }
  const std::int64_t row = impl_->next_row++;
  return impl_->current.slice(row, row + 1);
}

Estimator::Estimator(EstimatorOptions options, RunConfig config) : impl_(std::make_shared<Impl>()) {
  check(options);
  config.check();
  if (config.model_dir.empty()) config.model_dir = temporary_model_dir();
  log_once(config);
  impl_->options = std::move(options);
  impl_->config = std::move(config);
}
Estimator::~Estimator() = default;
Estimator::Estimator(const Estimator&) = default;
Estimator& Estimator::operator=(const Estimator&) = default;

const RunConfig& Estimator::config() const { return impl_->config; }
const Path& Estimator::model_dir() const { return impl_->config.model_dir; }
const EstimatorOptions& Estimator::options() const { return impl_->options; }

TrainResult Estimator::train(const InputFn& input_fn, const TrainOptions& options) {
  if (const auto& learner = impl_->options.learner) {
    check_training(impl_->config, input_fn);
    if (impl_->config.cluster.train_distribute) {
      throw Unimplemented("boosted trees train in one process alone; unset TF_CONFIG");
    }
    return learner->train(impl_->options, impl_->config, input_fn, options);
  }
  const auto run = trainer(input_fn, options);
  run->begin();
  while (run->step()) continue;
  return run->finish();
}

std::unique_ptr<Trainer> Estimator::trainer(const InputFn& input_fn, const TrainOptions& options) {
  check_training(impl_->config, input_fn);
  if (impl_->options.learner) {
    throw Unimplemented("boosted trees are not trained step by step; use Estimator::train");
  }
  impl_->warn_of_slow_bfloat16();
  return std::make_unique<Trainer>(impl_->options, impl_->config, input_fn, options, default_hooks);
}

EvaluationResult Estimator::evaluate(const InputFn& input_fn, const EvaluateOptions& options) {
  if (!input_fn) throw InvalidArgument("evaluate: input_fn is not set");
  impl_->model().load(impl_->checkpoint_or_latest(options.checkpoint_path));
  return impl_->evaluate_loaded(input_fn, options, eval_dir(options.name));
}

EvaluationResult Estimator::evaluate(const Session& training, const InputFn& input_fn,
                                     const EvaluateOptions& options) {
  if (!input_fn) throw InvalidArgument("evaluate: input_fn is not set");
  if (!options.checkpoint_path.empty()) {
    throw InvalidArgument("evaluate: a run in memory has no checkpoint_path, but it is set to {}",
                          options.checkpoint_path.string());
  }
  if (impl_->options.learner) {
    throw Unimplemented(
        "evaluate: this estimator has no variables to look at while it trains, as boosted trees "
        "have none; evaluate its checkpoints");
  }
  impl_->model().load(training.variables(), training.global_step());
  return impl_->evaluate_loaded(input_fn, options, eval_dir(options.name));
}

Predictions Estimator::predict(const InputFn& input_fn, const PredictOptions& options) {
  if (!input_fn) throw InvalidArgument("predict: input_fn is not set");
  const Path checkpoint = impl_->checkpoint_or_latest(options.checkpoint_path);
  auto impl = std::make_unique<Predictions::Impl>();
  impl->options = impl_->options;
  // A model of its own: a pass of predictions may continue while the estimator trains and
  // evaluates.
  impl->model = std::make_unique<EvaluationModel>(impl->options, impl_->config);
  impl->model->load(checkpoint);
  impl->predict_options = options;
  impl->input = input_fn(InputContext(Mode::kPredict, 1, 0,
                                      derive_key(impl_->config.seed(), seed_stream::kPredictInput)))
                    .iterate();
  return Predictions(std::move(impl));
}

std::optional<Path> Estimator::latest_checkpoint() const {
  return muster::latest_checkpoint(model_dir());
}

Path Estimator::eval_dir(std::string_view name) const {
  return model_dir() / (name.empty() ? std::string("eval") : fmt::format("eval_{}", name));
}

std::vector<std::string> Estimator::get_variable_names() const {
  return BundleReader(impl_->checkpoint_or_latest({})).names();
}

at::Tensor Estimator::get_variable_value(const std::string& name) const {
  return decode(BundleReader(impl_->checkpoint_or_latest({})), name);
}

}  // namespace muster
