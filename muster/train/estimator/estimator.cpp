#include "muster/train/estimator/estimator.h"

#include <torch/types.h>

#include <algorithm>
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
#include "muster/nn/model/model_summary.h"
#include "muster/nn/optim/slot_count.h"
#include "muster/train/engine/seed_streams.h"
#include "muster/train/engine/seeded_model.h"
#include "muster/train/engine/tensor_codec.h"
#include "muster/train/engine/tower_options.h"
#include "muster/train/engine/trainer.h"
#include "muster/train/estimator/checkpoint_copy_internal.h"
#include "muster/train/estimator/evaluation.h"
#include "muster/train/estimator/evaluation_model.h"
#include "muster/train/estimator/learner.h"
#include "muster/train/estimator/plateau_internal.h"
#include "muster/train/estimator/predictor.h"
#include "muster/train/estimator/rates_internal.h"
#include "muster/train/estimator/scratch_folder_internal.h"
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
  if (options.moving_average && has_evaluation_offset(options.optimizer)) {
    throw InvalidArgument(
        "Estimator: moving_average is set, and an optimizer keeps an average by itself, which "
        "evaluations use: leave out moving_average");
  }
}

bool is_process_alone(const RunConfig& config) {
  return config.cluster.task.is_alone() && config.cluster.task.cluster.empty();
}

void check_together(const EstimatorOptions& options, const RunConfig& config) {
  if (config.dry_run && !is_process_alone(config)) {
    throw InvalidArgument("RunConfig: dry_run is for a process alone, and this one is {}",
                          config.cluster.task.task.name());
  }
  if (!options.reduce_on_plateau) return;
  internal::check(*options.reduce_on_plateau);
  if (options.learner) {
    throw InvalidArgument("Estimator: reduce_on_plateau is for training by gradients, not trees");
  }
  if (!is_process_alone(config)) {
    throw Unimplemented(
        "Estimator: reduce_on_plateau works in a process alone so far, since tasks of a cluster do "
        "not see an evaluation at the same step; leave it out, or take a schedule");
  }
}

// So many passes over what the input function gives.
InputFn repeated_input(const InputFn& input_fn, std::int64_t epochs) {
  return [input_fn, epochs](const InputContext& context) {
    const Dataset<Batch> once = input_fn(context);
    if (once.stage()->is_endless()) {
      throw InvalidArgument(
          "train: max_epochs is {}, and the input repeats itself without an end: leave repeat() "
          "out of the input function, or max_epochs",
          epochs);
    }
    return once.repeat(static_cast<std::uint64_t>(epochs));
  };
}

InputFn input_of_run(const InputFn& input_fn, const TrainOptions& options) {
  if (!options.max_epochs) return input_fn;
  if (*options.max_epochs <= 0) {
    throw InvalidArgument("train: max_epochs must be positive: {}", *options.max_epochs);
  }
  return repeated_input(input_fn, *options.max_epochs);
}

// One batch of it.
InputFn shortened_input(const InputFn& input_fn) {
  return [input_fn](const InputContext& context) { return input_fn(context).take(1); };
}

TrainOptions options_of_run(const RunConfig& config, const TrainOptions& options) {
  if (!config.dry_run) return options;
  TrainOptions one_step = options;
  one_step.steps = 1;
  one_step.max_steps.reset();
  return one_step;
}

EvaluateOptions options_of_evaluation(const RunConfig& config, const EvaluateOptions& options) {
  if (!config.dry_run) return options;
  EvaluateOptions one_batch = options;
  one_batch.steps = 1;
  return one_batch;
}

void log_model(const EstimatorOptions& options, std::uint64_t seed) {
  const std::string summary = model_summary(*make_seeded_model(options.model, seed));
  for (std::size_t begin = 0; begin < summary.size();) {
    const std::size_t end = std::min(summary.find('\n', begin), summary.size());
    log::info("{}", summary.substr(begin, end - begin));
    begin = end + 1;
  }
}

Path temporary_model_dir() {
  Path folder = internal::make_temporary_folder("muster-model");
  log::warning("Using temporary folder as model directory: {}", folder.string());
  return folder;
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
  /// In a dry run, where everything is written; config has its path.
  std::unique_ptr<internal::ScratchFolder> scratch;

  // Takes a temporary folder for the run's, with a copy of its latest checkpoint.
  void begin_dry_run() {
    scratch = std::make_unique<internal::ScratchFolder>();
    const Path real = std::exchange(config.model_dir, scratch->path());
    log::info("dry run: one step and one batch of evaluations, in {}; {} is not touched",
              config.model_dir.string(), real.empty() ? "no other folder" : real.string());
    log_model(options, config.seed());
    const auto latest = real.empty() ? std::nullopt : muster::latest_checkpoint(real);
    if (latest) internal::copy_checkpoint(*latest, config.model_dir);
  }

  // The run by which `train_options` trains: with the rates and hooks that options ask for.
  std::unique_ptr<Trainer> make_trainer(const InputFn& input_fn,
                                        const TrainOptions& train_options) const {
    if (!options.reduce_on_plateau) {
      return std::make_unique<Trainer>(options, config, input_fn, train_options, default_hooks);
    }
    const auto plateau = std::make_shared<internal::Plateau>(*options.reduce_on_plateau);
    EstimatorOptions reduced = options;
    reduced.optimizer =
        internal::with_rates(options.optimizer, [&plateau](const LearningRate& rate) {
          return LearningRate(
              [plateau, rate](std::int64_t step) { return rate.at(step) * plateau->factor(step); },
              rate.description() + ", reduced on plateaus");
        });
    TrainOptions watched = train_options;
    watched.hooks.push_back(plateau);
    return std::make_unique<Trainer>(reduced, config, input_fn, watched, default_hooks);
  }

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
  check_together(options, config);
  if (config.model_dir.empty() && !config.dry_run) config.model_dir = temporary_model_dir();
  log_once(config);
  impl_->options = std::move(options);
  impl_->config = std::move(config);
  if (impl_->config.dry_run) impl_->begin_dry_run();
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
    if (options.max_epochs) {
      throw InvalidArgument("train: boosted trees read their input once; leave out max_epochs");
    }
    return learner->train(impl_->options, impl_->config, input_fn,
                          options_of_run(impl_->config, options));
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
  return impl_->make_trainer(input_of_run(input_fn, options),
                             options_of_run(impl_->config, options));
}

EvaluationResult Estimator::evaluate(const InputFn& input_fn, const EvaluateOptions& options) {
  if (!input_fn) throw InvalidArgument("evaluate: input_fn is not set");
  impl_->model().load(impl_->checkpoint_or_latest(options.checkpoint_path));
  return impl_->evaluate_loaded(input_fn, options_of_evaluation(config(), options),
                                eval_dir(options.name));
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
  return impl_->evaluate_loaded(input_fn, options_of_evaluation(config(), options),
                                eval_dir(options.name));
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
  const InputFn input = config().dry_run ? shortened_input(input_fn) : input_fn;
  impl->input = input(InputContext(Mode::kPredict, 1, 0,
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
