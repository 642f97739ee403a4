#include "muster/estimator/train_loop.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/base/signals.h"
#include "muster/base/thread_pool.h"
#include "muster/checkpoint/async_checkpointer.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/estimator/arithmetic.h"
#include "muster/estimator/default_hooks.h"
#include "muster/estimator/loss_scale.h"
#include "muster/estimator/run_state.h"
#include "muster/estimator/seed_streams_internal.h"
#include "muster/estimator/tensor_codec.h"
#include "muster/estimator/torch_compat.h"
#include "muster/optim/clipping.h"
#include "muster/optim/updater.h"
#include "muster/summary/event_writer.h"

namespace muster {
namespace {

// What R and threads_per_replica are, from the flags, the checkpoint and the machine, in this
// order.
TowerOptions resolve(const RunConfig& config, const std::optional<RunState>& saved) {
  if (config.precision == ComputeType::kFloat16) {
    throw InvalidArgument(
        "RunConfig: precision float16 needs a GPU, and this run has none; use bfloat16");
  }
  TowerOptions options{.seed = config.seed(), .precision = config.precision};
  options.replicas = config.replicas > 0 ? config.replicas : saved ? saved->replicas : 1;
  const auto processors = static_cast<int>(ThreadPool::available_processors());
  const int default_threads = options.replicas > 1 ? 1 : processors;
  options.threads_per_replica = config.threads_per_replica > 0 ? config.threads_per_replica
                                : saved                        ? saved->threads_per_replica
                                                               : default_threads;
  const int side_by_side = std::max(1, processors / options.threads_per_replica);
  options.concurrent = config.concurrent_replicas > 0 ? config.concurrent_replicas : side_by_side;
  return options;
}

// Says what about a resumed run is not as it was: its weights will differ from an undisturbed
// run's.
void compare(const RunState& saved, const TowerOptions& now) {
  const auto differs = [](std::string_view what, const auto& was, const auto& is) {
    if (was != is) {
      log::warning(
          "{} changes from {} to {} with this resume: the weights will not be those of an "
          "undisturbed run",
          what, was, is);
    }
  };
  differs("replicas", saved.replicas, now.replicas);
  differs("threads_per_replica", saved.threads_per_replica, now.threads_per_replica);
  differs("the seed", saved.seed, now.seed);
  differs("the arithmetic", saved.arithmetic, arithmetic().fingerprint());
}

bool all_finite(const StepGradients& step) {
  for (const auto& loss : step.losses) {
    if (loss.defined() && !std::isfinite(loss.item<double>())) return false;
  }
  return true;
}

bool all_finite(const Gradients& gradients) {
  const auto finite = [](const at::Tensor& tensor) {
    // The sum of x * 0 is 0 unless an element is infinite or NaN: one pass, no temporary mask.
    return !tensor.defined() || tensor.numel() == 0 ||
           std::isfinite((tensor * 0.0F).sum().item<double>());
  };
  if (!finite(gradients.flat)) return false;
  return std::all_of(gradients.rows.begin(), gradients.rows.end(),
                     [&](const RowGradient& rows) { return finite(rows.values); });
}

}  // namespace

/// The session that hooks see, and everything a step needs.
struct TrainLoop::Impl final : Session {
  Impl(const EstimatorOptions& estimator_options, const RunConfig& run_config, const InputFn& input,
       const TrainOptions& train)
      : options(estimator_options), config_(run_config), input_fn(input), train_options(train) {}

  // Session
  Mode mode() const override { return Mode::kTrain; }
  const RunConfig& config() const override { return config_; }
  std::int64_t global_step() const override { return step_; }
  const Path& output_dir() const override { return config_.model_dir; }
  double loss() override;
  const EstimatorSpec& spec() const override { return last.spec; }
  std::int64_t step_examples() const override { return last.examples; }
  std::map<std::string, double> learning_rates() const override;
  EventWriter& events() override;
  std::vector<NamedTensor> variables() const override;
  void save_checkpoint(const SavingListeners& listeners) override;
  void request_stop(std::string_view reason) override;
  bool stop_requested() const override { return !stop_reason.empty(); }

  // The run
  TrainResult run();
  bool already_done() const;
  void prepare();
  void restore(const OpenCheckpoint& checkpoint, const std::optional<RunState>& saved);
  void warm_start_variables();
  void open_inputs(const std::optional<RunState>& saved);
  void loop();
  bool step();
  bool next_batches();
  void finish_gradients();
  void after_bad_step(std::string_view what);
  void roll_back();
  void check_signal();
  RunState run_state() const;
  std::vector<NamedTensor> checkpoint_tensors() const;
  void begin_save();
  bool save_failed();
  void for_each_hook(void (Hook::*call)(Session&));
  void finish();

  const EstimatorOptions& options;
  RunConfig config_;
  const InputFn& input_fn;
  const TrainOptions& train_options;

  std::optional<Towers> towers;
  std::optional<Updater> updater;
  std::optional<MovingAverage> average;
  std::optional<CheckpointLayouts> layouts;
  std::optional<LossScale> scale;
  std::vector<std::unique_ptr<Iterator<Batch>>> inputs;
  std::vector<std::optional<Batch>> batches;
  Hooks hooks;
  std::unique_ptr<EventWriter> event_writer;

  std::int64_t step_ = 0;
  std::int64_t first_step = 0;
  std::optional<std::int64_t> last_step;
  std::int64_t saved_step = -1;
  /// The steps are over: what is not saved now is lost.
  bool ending = false;
  /// What the checkpointer still copies while the next forward runs; the update waits for it.
  std::optional<EncodedTensors> being_copied;
  // After what it may still be copying from, so that it is destroyed first.
  std::unique_ptr<AsyncCheckpointer> checkpointer;
  StepGradients last;
  std::optional<double> last_loss;
  double decay_loss = 0;
  std::int64_t bad_steps = 0;
  /// Steps whose batches are left out when they come again after a roll-back.
  std::set<std::int64_t> left_out;
  std::string stop_reason;
  int signal = 0;
};

double TrainLoop::Impl::loss() {
  if (!last_loss) {
    double sum = 0;
    for (const auto& loss : last.losses) {
      if (loss.defined()) sum += loss.item<double>();
    }
    last_loss =
        last.present == 0 ? std::nan("") : sum / static_cast<double>(last.present) + decay_loss;
  }
  return *last_loss;
}

std::map<std::string, double> TrainLoop::Impl::learning_rates() const {
  std::map<std::string, double> rates;
  // Of the step that was made last, if there was one.
  for (const auto& rate : updater->learning_rates(std::max<std::int64_t>(step_ - 1, 0))) {
    rates.emplace(rate.prefix, rate.learning_rate);
  }
  return rates;
}

EventWriter& TrainLoop::Impl::events() {
  if (event_writer == nullptr) event_writer = std::make_unique<EventWriter>(config_.model_dir);
  return *event_writer;
}

std::vector<NamedTensor> TrainLoop::Impl::variables() const {
  auto tensors = towers->variables().tensors();
  const auto append = [&tensors](std::vector<NamedTensor> more) {
    tensors.insert(tensors.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  };
  append(updater->tensors());
  if (average) append(average->tensors());
  return tensors;
}

// Everything a checkpoint holds. Buffers are copied at once, since the next forward changes them
// while the rest is still being copied in the background.
std::vector<NamedTensor> TrainLoop::Impl::checkpoint_tensors() const {
  auto tensors = variables();
  for (auto& named : tensors) {
    const Variable* variable = towers->variables().find(named.name);
    if (variable != nullptr && !variable->spec.trainable) named.tensor = named.tensor.clone();
  }
  tensors.push_back({"global_step", at::full({}, step_, at::kLong)});
  return tensors;
}

RunState TrainLoop::Impl::run_state() const {
  RunState state{.global_step = step_,
                 .replicas = towers->options().replicas,
                 .threads_per_replica = towers->options().threads_per_replica,
                 .seed = config_.seed(),
                 .arithmetic = arithmetic().fingerprint(),
                 .loss_scale = scale->value(),
                 .loss_scale_steps = scale->good_steps()};
  for (const auto& input : inputs) {
    try {
      state.inputs.emplace_back(input->save());
    } catch (const FailedPrecondition& error) {
      state.inputs.emplace_back(std::nullopt);
      state.input_obstacle = error.what();
    }
  }
  return state;
}

// Waits until the last save is written.
bool TrainLoop::Impl::save_failed() {
  checkpointer->flush();
  return checkpointer->status().last_failure.has_value();
}

void TrainLoop::Impl::begin_save() {
  log::info("Saving checkpoints for {} into {}/model.ckpt.", step_, config_.model_dir.string());
  const RunState state = run_state();
  if (!state.input_obstacle.empty() && saved_step < 0) {
    log::warning("the input's position is not saved, a resume will start it anew: {}",
                 state.input_obstacle);
  }
  being_copied = encode(checkpoint_tensors(), *layouts);
  checkpointer->save(step_, being_copied->views, to_json(state));
  saved_step = step_;
}

void TrainLoop::Impl::save_checkpoint(const SavingListeners& listeners) {
  const bool again = saved_step == step_;
  if (again && !(ending && save_failed())) return;
  for (const auto& listener : listeners) listener->before_save(*this, step_);
  begin_save();
  if (listeners.empty() && !ending) return;
  if (ending && !again && save_failed()) {
    log::warning("trying once more to save step {}, since no later one will be", step_);
    begin_save();
  }
  if (save_failed()) return;  // Logged already; listeners hear of whole checkpoints alone.
  for (const auto& listener : listeners) {
    if (listener->after_save(*this, step_)) request_stop("a checkpoint listener asked for it");
  }
}

void TrainLoop::Impl::request_stop(std::string_view reason) {
  if (!stop_reason.empty()) return;
  stop_reason = reason;
  log::info("stopping after step {}: {}", step_, reason);
}

bool TrainLoop::Impl::already_done() const { return last_step && step_ >= *last_step; }

void TrainLoop::Impl::warm_start_variables() {
  std::vector<WarmStartTarget> targets;
  for (const auto& named : variables()) {
    const Variable* variable = towers->variables().find(named.name);
    targets.push_back(
        {named, layouts->of(named.name), variable != nullptr && variable->spec.trainable});
  }
  for (const WarmStartSettings& settings : options.first_values) warm_start(targets, settings);
  if (options.warm_start) warm_start(targets, *options.warm_start);
}

void TrainLoop::Impl::restore(const OpenCheckpoint& checkpoint,
                              const std::optional<RunState>& saved) {
  log::info("Restoring parameters from {}", checkpoint.bundle.prefix().string());
  auto targets = variables();
  const at::Tensor saved_global_step = at::zeros({}, at::kLong);
  targets.push_back({"global_step", saved_global_step});
  restore_from(checkpoint.bundle, targets, *layouts);
  step_ = saved_global_step.item<std::int64_t>();
  saved_step = step_;
  towers->commit();
  if (saved) scale->restore(saved->loss_scale, saved->loss_scale_steps);
}

void TrainLoop::Impl::open_inputs(const std::optional<RunState>& saved) {
  inputs.clear();
  const std::int64_t replicas = towers->options().replicas;
  const bool same_replicas = saved && saved->replicas == replicas;
  if (saved && !same_replicas) {
    log::warning("the input starts anew: its position was saved for {} replicas", saved->replicas);
  }
  for (std::int64_t r = 0; r < replicas; ++r) {
    const InputContext context(Mode::kTrain, replicas, r,
                               derive_key(config_.seed(), seed_stream::kTrainInput));
    const Dataset<Batch> dataset = input_fn(context);
    const auto position = same_replicas ? saved->inputs[static_cast<std::size_t>(r)] : std::nullopt;
    try {
      inputs.push_back(position ? dataset.iterate(*position) : dataset.iterate());
    } catch (Error& error) {
      error.add_context(fmt::format("opening the input of replica {}", r));
      throw;
    }
  }
  batches.resize(static_cast<std::size_t>(replicas));
}

void TrainLoop::Impl::prepare() {
  compat::use_deterministic_algorithms(true);
  const auto checkpoint = restore_latest(config_.model_dir);
  std::optional<RunState> saved;
  if (checkpoint && !checkpoint->state_json.empty()) {
    saved = parse_run_state(checkpoint->state_json,
                            checkpoint_state_json_path(checkpoint->bundle.prefix()).string());
  }
  TowerOptions tower_options = resolve(config_, saved);
  tower_options.may_discard = options.nan_policy.action != NanPolicy::Action::kStop ||
                              config_.precision == ComputeType::kFloat16;
  if (saved) compare(*saved, tower_options);
  towers.emplace(options.model, options.head.get(), tower_options);
  layouts.emplace(towers->module_variables());
  updater.emplace(towers->variables(), options.optimizers);
  if (options.moving_average) average.emplace(towers->variables(), *options.moving_average);
  scale.emplace(config_.precision == ComputeType::kFloat16);
  if (checkpoint) {
    restore(*checkpoint, saved);
  } else if (options.warm_start || !options.first_values.empty()) {
    warm_start_variables();
    towers->commit();
    // Averages begin with the values that the variables begin with.
    if (options.moving_average) average.emplace(towers->variables(), *options.moving_average);
  }
  first_step = step_;
  if (train_options.steps) last_step = step_ + *train_options.steps;
  if (train_options.max_steps) last_step = *train_options.max_steps;
  if (!already_done()) open_inputs(saved);
}

bool TrainLoop::Impl::next_batches() {
  bool any = false;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    batches[r] = inputs[r]->next();
    any |= batches[r].has_value();
  }
  return any;
}

// From the mean of the replicas to what the optimizers get.
void TrainLoop::Impl::finish_gradients() {
  const torch::NoGradGuard no_grad;
  Gradients& gradients = last.mean;
  const Variables& variables = towers->variables();
  scale->unscale(gradients);
  decay_loss = options.weight_decay.factor > 0
                   ? add_weight_decay(variables, gradients, options.weight_decay)
                   : 0.0;
  if (options.clip.value) clip_by_value(gradients, *options.clip.value);
  if (options.clip.norm) clip_by_norm(variables, gradients, *options.clip.norm);
  if (options.clip.global_norm)
    clip_by_global_norm(variables, gradients, *options.clip.global_norm);
}

void TrainLoop::Impl::roll_back() {
  checkpointer->flush();
  const auto checkpoint = restore_latest(config_.model_dir);
  if (!checkpoint) throw FailedPrecondition("there is no checkpoint to roll back to");
  const auto saved = parse_run_state(
      checkpoint->state_json, checkpoint_state_json_path(checkpoint->bundle.prefix()).string());
  left_out.insert(step_);
  restore(*checkpoint, saved);
  open_inputs(saved);
  for_each_hook(&Hook::after_create_session);
}

// The variables have not been touched by the step.
void TrainLoop::Impl::after_bad_step(std::string_view what) {
  const NanPolicy& policy = options.nan_policy;
  ++bad_steps;
  if (policy.action == NanPolicy::Action::kStop || bad_steps > policy.limit) {
    throw Aborted(
        "the {} of step {} is not finite; lower the learning rate, clip the gradients, look at the "
        "input, or set a nan_policy that goes on{}",
        what, step_ + 1,
        policy.action == NanPolicy::Action::kStop
            ? ""
            : fmt::format(" ({} such steps are allowed)", policy.limit));
  }
  if (policy.action == NanPolicy::Action::kRollBack) {
    log::warning(
        "the {} of step {} is not finite: going back to the last checkpoint, and leaving its batch "
        "out "
        "({} of {})",
        what, step_ + 1, bad_steps, policy.limit);
    roll_back();
  } else {
    towers->discard();
    log::warning("the {} of step {} is not finite: its batch is left out ({} of {})", what,
                 step_ + 1, bad_steps, policy.limit);
  }
}

// One update, or none for a batch that had to be left out. False at the end of the input.
bool TrainLoop::Impl::step() {
  if (!next_batches()) return false;
  if (left_out.erase(step_) > 0) return true;
  last_loss.reset();
  last = towers->run(batches, step_, scale->value());
  if (being_copied) {
    checkpointer->wait_until_copied();
    being_copied.reset();
  }
  if (!all_finite(last)) {
    after_bad_step("loss");
    return true;
  }
  finish_gradients();
  if (scale->enabled() || options.nan_policy.action != NanPolicy::Action::kStop) {
    const bool finite = all_finite(last.mean);
    // An overflow of float16 is the scale's business: it shrinks, and the batch is left out.
    if (scale->enabled() && !scale->update(finite)) {
      towers->discard();
      return true;
    }
    if (!finite) {
      after_bad_step("gradient");
      return true;
    }
  }
  updater->apply(last.mean, step_);
  if (average) average->update(step_);
  towers->commit();
  ++step_;
  return true;
}

void TrainLoop::Impl::check_signal() {
  if (!train_options.handle_signals || signal != 0) return;
  signal = StopSignals::received();
  if (signal != 0) request_stop(fmt::format("signal {}", signal));
}

void TrainLoop::Impl::for_each_hook(void (Hook::*call)(Session&)) {
  for (const auto& hook : hooks) (hook.get()->*call)(*this);
}

void TrainLoop::Impl::loop() {
  for_each_hook(&Hook::begin);
  for_each_hook(&Hook::after_create_session);
  for (check_signal(); !stop_requested() && !already_done(); check_signal()) {
    for_each_hook(&Hook::before_run);
    const std::int64_t before = step_;
    if (!step()) {
      request_stop("the input ended");
      break;
    }
    if (step_ > before) for_each_hook(&Hook::after_run);
  }
}

void TrainLoop::Impl::finish() {
  ending = true;
  for_each_hook(&Hook::end);
  checkpointer->flush();
  if (event_writer != nullptr) event_writer->close();
  // Until here a failure cost nothing but the time since an older checkpoint.
  const AsyncCheckpointStatus status = checkpointer->status();
  if (!status.last_failure) return;
  const auto latest = latest_checkpoint(config_.model_dir);
  throw Error(
      status.last_failure->code,
      fmt::format("the checkpoint of the last step, {}, is not saved: {}; put that right and "
                  "train again: {}",
                  step_, status.last_failure->message,
                  latest ? fmt::format("it resumes from {}", latest->string())
                         : std::string("there is no checkpoint to resume from")));
}

TrainResult TrainLoop::Impl::run() {
  if (train_options.steps && train_options.max_steps) {
    throw InvalidArgument("train: at most one of steps and max_steps may be set");
  }
  for (const auto& [name, value] :
       {std::pair("steps", train_options.steps), std::pair("max_steps", train_options.max_steps)}) {
    if (value && *value <= 0) throw InvalidArgument("train: {} must be positive: {}", name, *value);
  }
  std::optional<StopSignals> signals;
  if (train_options.handle_signals) signals.emplace();
  prepare();
  if (already_done()) {
    log::info("Skipping training since max_steps has already saved.");
    return {.global_step = step_};
  }
  checkpointer = std::make_unique<AsyncCheckpointer>(CheckpointStore(
      config_.model_dir, {.keep_checkpoint_max = config_.keep_checkpoint_max,
                          .keep_checkpoint_every_n_hours = config_.keep_checkpoint_every_n_hours}));
  for (const auto& line : updater->descriptions()) log::info("{}", line);
  log::info(
      "training {} scalars in {} variables, replicas={} threads_per_replica={} concurrent={} "
      "seed={}",
      towers->variables().parameter_count(), towers->variables().all().size(),
      towers->options().replicas, towers->options().threads_per_replica,
      towers->options().concurrent, config_.seed());
  hooks = default_hooks(config_, train_options, last_step);
  try {
    loop();
  } catch (Error& error) {
    error.add_context(fmt::format("training step {}", step_ + 1));
    throw;
  }
  finish();
  if (step_ == first_step) log::warning("no training step was run: the input had no batch");
  TrainResult result{.global_step = step_, .steps = step_ - first_step};
  if (result.steps > 0) {
    result.loss = loss();
    log::info("Loss for final step: {:g}.", *result.loss);
  }
  if (signal != 0) {
    throw Interrupted(signal, "stopped by signal {} after step {}, which is {}saved", signal, step_,
                      saved_step == step_ ? "" : "not ");
  }
  return result;
}

TrainLoop::TrainLoop(const EstimatorOptions& options, const RunConfig& config,
                     const InputFn& input_fn, const TrainOptions& train_options)
    : impl_(std::make_unique<Impl>(options, config, input_fn, train_options)) {}
TrainLoop::~TrainLoop() = default;

TrainResult TrainLoop::run() { return impl_->run(); }

}  // namespace muster
