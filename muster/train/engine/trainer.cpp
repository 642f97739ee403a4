#include "muster/train/engine/trainer.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/freed_memory.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/base/thread_pool.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/checkpoint/checkpoint_parts.h"
#include "muster/nn/device/devices.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/optim/update.h"
#include "muster/nn/optim/updater.h"
#include "muster/train/engine/arithmetic.h"
#include "muster/train/engine/captured_steps.h"
#include "muster/train/engine/device_steps.h"
#include "muster/train/engine/loss_scale.h"
#include "muster/train/engine/not_finite.h"
#include "muster/train/engine/replica_inputs.h"
#include "muster/train/engine/run_state.h"
#include "muster/train/engine/run_terms.h"
#include "muster/train/engine/seed_streams.h"
#include "muster/train/engine/strategy.h"
#include "muster/train/engine/tensor_codec.h"
#include "muster/train/engine/towers.h"
#include "muster/train/engine/train_session.h"

namespace muster {
namespace {

// A GPU leaves its processors to updates and inputs, whatever the model is.
int threads_by_size(const ModelFactory& model, const TowerOptions& options) {
  const int most = default_cpu_threads();
  if (most == 1 || options.on_gpus()) return most;
  return threads_for_model(variables_of(*Towers::make_model(model, options.seed)), most);
}

// What R and threads_per_replica are, from the flags, the checkpoint and the machine, in this
// order.
TowerOptions resolve(const RunConfig& config, const ModelFactory& model,
                     const std::optional<RunState>& saved) {
  TowerOptions options{.seed = config.seed(),
                       .precision = config.reproducibility.precision,
                       .devices = tower_devices(config, model),
                       .variable_strategy = config.devices.variable_strategy,
                       .logical_devices = config.devices.logical_devices,
                       .own_cpu_kernels = config.reproducibility.own_cpu_kernels};
  if (config.reproducibility.precision == ComputeType::kFloat16 && !options.on_gpus()) {
    throw InvalidArgument(
        "RunConfig: precision float16 needs a GPU, and this run has none; use bfloat16");
  }
  const std::int64_t tasks =
      config.cluster.train_distribute ? config.cluster.task.num_worker_replicas : 1;
  const std::int64_t devices = tasks * static_cast<std::int64_t>(options.devices.size());
  options.replicas = config.reproducibility.replicas > 0 ? config.reproducibility.replicas
                     : saved                             ? saved->replicas
                                                         : devices;
  // With a GPU, a task's processors have little to do but to speak with other tasks, whose threads
  // would be in the way.
  const bool has_gpu_and_peers = options.on_gpus() && config.cluster.train_distribute;
  options.threads_per_replica =
      config.reproducibility.threads_per_replica > 0 ? config.reproducibility.threads_per_replica
      : saved                                        ? saved->threads_per_replica
      : options.replicas > 1 || has_gpu_and_peers    ? 1
                                                     : threads_by_size(model, options);
  return options;
}

int concurrent_replicas(const RunConfig& config, const TowerOptions& options) {
  if (config.devices.concurrent_replicas > 0) return config.devices.concurrent_replicas;
  if (options.devices.size() > 1) return static_cast<int>(options.devices.size());
  const auto processors = static_cast<int>(ThreadPool::available_processors());
  return std::max(1, processors / options.threads_per_replica);
}

// What the bits of the run depend on, beside its options: what kinds of devices compute, not which
// of a kind.
std::string arithmetic_of(const TowerOptions& options) {
  const std::string line = numerics_fingerprint(options.own_cpu_kernels).fingerprint();
  if (!options.on_gpus()) return line;
  std::set<std::string> kinds;
  for (const c10::Device device : options.devices) {
    kinds.insert(device.is_cuda() ? gpu_name(device) : "cpu");
  }
  return fmt::format("{}, {}", line, fmt::join(kinds, " and "));
}

// What a checkpoint has beside its tensors; nothing in TensorFlow's own. Throws DataLoss.
std::optional<RunState> run_state_of(const OpenCheckpoint& checkpoint) {
  if (checkpoint.state_json.empty()) return std::nullopt;
  const Path& prefix = checkpoint.bundle.prefix();
  const std::string file = checkpoint_state_json_path(prefix).string();
  RunState state = parse_run_state(checkpoint.state_json, file);
  if (state.global_step != checkpoint_step(prefix).value_or(state.global_step)) {
    throw DataLoss("{} is of step {}", file, state.global_step);
  }
  return state;
}

void check_run_state(const OpenCheckpoint& checkpoint) { run_state_of(checkpoint); }

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
  differs("the arithmetic", saved.arithmetic, arithmetic_of(now));
}

}  // namespace

/// A run of training by gradients: its session, and what its strategy sees of this process.
struct Trainer::Impl final : TrainSession, Participant {
  Impl(const EstimatorOptions& estimator_options, const RunConfig& run_config, InputFn input,
       const TrainOptions& train, const HooksOfRun& hooks)
      : TrainSession(run_config, train, hooks),
        options(estimator_options),
        input_fn(std::move(input)) {}
  // What is captured may hold the strategy's connections between devices.
  ~Impl() override {
    device_steps.reset();
    tower_steps.reset();
  }

  // Session
  double loss() override;
  const EstimatorSpec& spec() const override { return last_spec; }
  std::int64_t step_examples() const override { return last.examples; }
  std::map<std::string, double> learning_rates() const override;
  std::vector<NamedTensor> variables() const override;

  // TrainSession
  void prepare() override;
  void open_input() override;
  void log_begin() const override;
  bool make_step() override;
  void gather() override;
  Content content() const override;
  bool leave() override;
  void end_steps(int signal) override;

  // Participant
  const Variables& run_variables() const override { return towers->variables(); }
  const Updater& run_updater() const override { return *updater; }
  const std::vector<at::Tensor>& buffers() const override { return towers->buffers(); }
  InputPositions positions() override { return inputs->positions_now(mine); }
  StepResult update(std::int64_t step, PartialSums total) override;
  StepResult prepare_local_gradients(PartialSums& own) override;
  double decay_loss() const override;
  RunSnapshot snapshot() override;
  void restore_snapshot(const RunSnapshot& from) override;
  void roll_back_to_checkpoint() override;

  // How a run begins.
  bool is_shared() const { return static_cast<bool>(config().cluster.train_distribute); }
  void prepare_devices(TowerOptions& tower_options);
  std::string why_not_on_device(const TowerOptions& tower_options) const;
  bool captures_towers(const TowerOptions& tower_options) const;
  void join(TowerOptions& tower_options, std::int64_t first_step);
  void make_parts(const TowerOptions& tower_options);
  void restore(const OpenCheckpoint& checkpoint, const std::optional<RunState>& saved);
  void warm_start_variables();
  void resume_inputs(const std::optional<RunState>& saved);
  void open_inputs() { inputs->open(mine, global_step() + bad_steps); }
  void synchronize();

  // A step.
  bool make_device_step();
  bool make_shared_device_step();
  PartialSums run_towers();
  double weight_decay() const;
  template <typename Work>
  std::optional<StepResult> or_synchronize(const Work& work);
  void take_result(StepResult result);
  void stop_if_bad() const;
  [[noreturn]] void stop_for(std::string_view what, std::int64_t step) const;
  std::string cause_of_bad_step() const;
  void after_bad_step(std::string_view what);
  void roll_back();

  RunState run_state() const;
  std::vector<NamedTensor> checkpoint_tensors() const;
  void fetch_for_checkpoint();
  bool may_have_parts();
  void fetch_for_last_checkpoint();

  const EstimatorOptions options;
  const InputFn input_fn;

  /// First of those below, so that it ends last.
  std::optional<StreamScope> stream;
  std::optional<Towers> towers;
  std::optional<Updater> updater;
  std::optional<MovingAverage> average;
  std::optional<HostUpdate> host_update;
  /// Whether the device makes steps by itself.
  bool is_on_device = false;
  std::optional<DeviceSteps> device_steps;
  /// Where one GPU runs all towers, and variables are updated elsewhere.
  std::optional<CapturedSteps> tower_steps;
  std::optional<CheckpointLayouts> layouts;
  std::optional<LossScale> scale;
  std::optional<ReplicaInputs> inputs;
  std::unique_ptr<Strategy> strategy;
  /// What others write of the last checkpoint that was begun, and of which step that is.
  std::shared_ptr<CheckpointParts> parts;
  std::int64_t parts_step = -1;
  /// Whether there is a checkpoint to go back to.
  bool has_checkpoint = false;
  /// The replicas that this process runs now.
  ReplicaRange mine;
  /// No replica of any process has a batch.
  bool inputs_over = false;
  /// Of the last step that was made.
  StepResult last;
  EstimatorSpec last_spec;
  std::optional<double> last_loss;
  /// The weight-decay term of the step that is being made, where it was computed ahead.
  std::optional<double> step_decay_loss;

  std::int64_t bad_steps = 0;
  /// Batches that were taken from the inputs, of each replica one, since they began.
  std::int64_t batches_taken = 0;
  /// What is not finite in the batches of the last step that was not, where it is in them.
  std::string bad_input;
  /// By number, those that are skipped whenever they come again after a roll-back.
  std::set<std::int64_t> skipped;
};

// ------------------------------------------------------------------------- what is seen of a run

double Trainer::Impl::loss() {
  if (!last_loss) {
    if (device_steps) {
      stop_if_bad();
      last.decay_loss = device_steps->decay_loss();
    }
    double sum = 0;
    for (const auto& loss : last.losses) {
      if (loss.defined()) sum += loss.item<double>();
    }
    last_loss = last.present == 0 ? std::nan("")
                                  : sum / static_cast<double>(last.present) + last.decay_loss;
  }
  return *last_loss;
}

std::map<std::string, double> Trainer::Impl::learning_rates() const {
  std::map<std::string, double> rates;
  // Of the step that was made last, if there was one.
  for (const auto& rate : updater->learning_rates(std::max<std::int64_t>(global_step() - 1, 0))) {
    rates.emplace(rate.prefix, rate.learning_rate);
  }
  return rates;
}

std::vector<NamedTensor> Trainer::Impl::variables() const {
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
std::vector<NamedTensor> Trainer::Impl::checkpoint_tensors() const {
  auto tensors = variables();
  for (auto& named : tensors) {
    const Variable* variable = towers->variables().find(named.name);
    if (variable != nullptr && !variable->spec.trainable) named.tensor = named.tensor.clone();
  }
  tensors.push_back({"global_step", at::full({}, global_step(), at::kLong)});
  return tensors;
}

RunState Trainer::Impl::run_state() const {
  RunState state{.global_step = global_step(),
                 .replicas = towers->options().replicas,
                 .threads_per_replica = towers->options().threads_per_replica,
                 .seed = towers->options().seed,
                 .arithmetic = arithmetic_of(towers->options()),
                 .loss_scale = scale->value(),
                 .loss_scale_steps = scale->good_steps()};
  // Tasks of a cluster that came later do not know it.
  if (!is_shared()) state.batches = batches_taken;
  state.inputs = inputs->positions();
  state.input_obstacle = inputs->obstacle();
  return state;
}

// What of the run is elsewhere, of the step that this process is at.
void Trainer::Impl::gather() {
  // Nothing bad is ever saved.
  if (device_steps) stop_if_bad();
  const auto fetched = [this] {
    try {
      fetch_for_checkpoint();
      return true;
    } catch (const PeersChanged& error) {
      log::warning("slots are asked for again: {}", error.what());
      return false;
    }
  };
  while (!fetched()) synchronize();
  inputs->refresh_positions(mine);
}

// Others write what they have where that is worth it, or it is brought here.
void Trainer::Impl::fetch_for_checkpoint() {
  // They were written before, for a save of this step that has failed or is only now made.
  if (parts && parts_step == global_step() && !parts->failure() && !parts->is_published()) return;
  parts_step = global_step();
  auto next = may_have_parts() ? strategy->begin_parts(parts_step) : nullptr;
  parts = std::move(next);
  if (!parts) strategy->fetch_slots();
}

// Whoever is lost while it writes its part of the first checkpoint would leave none to go back to.
bool Trainer::Impl::may_have_parts() {
  if (!has_checkpoint && config().is_chief() && is_shared()) {
    has_checkpoint = latest_checkpoint(config().model_dir).has_value();
  }
  return has_checkpoint;
}

// Afterwards the chief needs nothing of others to save the step that it is at.
void Trainer::Impl::fetch_for_last_checkpoint() {
  if (!parts || parts_step != global_step()) fetch_for_checkpoint();
  if (!parts) return;
  try {
    parts->wait();
  } catch (const Unavailable& error) {
    log::warning("the last checkpoint is written by the chief alone: {}", error.what());
    parts.reset();
    strategy->fetch_slots();
  }
}

TrainSession::Content Trainer::Impl::content() const {
  const RunState state = run_state();
  if (!state.input_obstacle.empty() && !saved_any()) {
    log::warning("the input's position is not saved, a resume will restart it: {}",
                 state.input_obstacle);
  }
  auto tensors = checkpoint_tensors();
  if (parts) {
    std::erase_if(tensors,
                  [this](const NamedTensor& named) { return parts->contains(named.name); });
  }
  const auto encoded = std::make_shared<EncodedTensors>(encode(std::move(tensors), *layouts));
  return {
      .tensors = encoded->views, .state_json = to_json(state), .owner = encoded, .parts = parts};
}

void Trainer::Impl::log_begin() const {
  // Those of the others are the same, or they would not train with it.
  if (config().is_chief()) {
    for (const auto& line : updater->descriptions()) log::info("{}", line);
  }
  log::info(
      "training {} scalars in {} variables, replicas={} threads_per_replica={} concurrent={} "
      "seed={}",
      towers->variables().parameter_count(), towers->variables().all().size(),
      towers->options().replicas, towers->options().threads_per_replica,
      towers->options().concurrent, config().seed());
  if (towers->options().on_gpus()) {
    log::info("towers on {}, variables on {}", describe(towers->options().devices),
              towers->home().str());
  }
  for (std::size_t place = 1; place < towers->places(); ++place) {
    const c10::Device device = towers->device_of_place(place);
    if (has_peer_access(device, towers->home())) continue;
    log::warning("{} and {} have no peer access: what they copy goes by way of the host",
                 towers->home().str(), device.str());
  }
}

// ----------------------------------------------------------------------------- how a run begins

void Trainer::Impl::warm_start_variables() {
  std::vector<WarmStartTarget> targets;
  for (const auto& named : variables()) {
    const Variable* variable = towers->variables().find(named.name);
    targets.push_back(
        {named, layouts->of(named.name), variable != nullptr && variable->spec.trainable});
  }
  for (const WarmStartSettings& settings : options.first_values) warm_start(targets, settings);
  if (options.warm_start) warm_start(targets, *options.warm_start);
}

void Trainer::Impl::restore(const OpenCheckpoint& checkpoint,
                            const std::optional<RunState>& saved) {
  log::info("Restoring parameters from {}", checkpoint.bundle.prefix().string());
  auto targets = variables();
  const at::Tensor saved_global_step = at::zeros({}, at::kLong);
  targets.push_back({"global_step", saved_global_step});
  restore_from(checkpoint.bundle, targets, *layouts);
  resume_at(saved_global_step.item<std::int64_t>());
  towers->commit();
  if (saved) scale->restore(saved->loss_scale, saved->loss_scale_steps);
}

// Where the inputs go on; they are opened by open_inputs().
void Trainer::Impl::resume_inputs(const std::optional<RunState>& saved) {
  inputs->resume(saved, global_step() + bad_steps);
  // An input without a position restarts, and so does the count.
  const bool go_on = saved && std::ssize(saved->inputs) == towers->options().replicas &&
                     inputs->obstacle().empty();
  batches_taken = go_on ? saved->batches.value_or(global_step()) : 0;
}

void Trainer::Impl::open_input() { open_inputs(); }

// The chief's terms are those of the run.
void Trainer::Impl::join(TowerOptions& tower_options, std::int64_t first_step) {
  if (options.nan_policy.action == NanPolicy::Action::kRollBack) {
    throw Unimplemented(
        "nan_policy kRollBack works in one process alone so far; use kStop or kSkipBatch in a "
        "cluster");
  }
  strategy->check(options);
  // What a task was not told is not its to say.
  const bool decides = config().is_chief();
  const auto own_end = last_step_from(first_step);
  auto others = terms_of(options, config(), *Towers::make_model(options.model, tower_options.seed));
  if (tower_options.on_gpus()) {
    others.push_back({"gradients are summed", is_on_device ? "on the GPUs" : "on the CPU"});
  }
  const RunContract terms = strategy->join(
      {.replicas = decides ? tower_options.replicas : config().reproducibility.replicas,
       .threads_per_replica = decides ? tower_options.threads_per_replica
                                      : config().reproducibility.threads_per_replica,
       .seed = tower_options.seed,
       .precision = tower_options.precision,
       .arithmetic = arithmetic_of(tower_options),
       .last_step = own_end.value_or(RunContract::kNoLastStep),
       .others = std::move(others)});
  tower_options.replicas = terms.replicas;
  tower_options.threads_per_replica = terms.threads_per_replica;
  tower_options.seed = terms.seed;
  if (decides) end_at(own_end);
  // Where a number of steps begins, the chief alone knows.
  if (!decides && has_last_step() && *own_end != terms.last_step) {
    log::warning(
        "the chief ends the run {}; that this task was told to end at step {} does not count",
        terms.last_step == RunContract::kNoLastStep ? std::string("with its input")
                                                    : fmt::format("at step {}", terms.last_step),
        *own_end);
  }
  tower_options.shared = true;
  tower_options.may_discard = true;
}

std::string Trainer::Impl::why_not_on_device(const TowerOptions& tower_options) const {
  if (is_shared()) {
    const std::string why = strategy->why_not_on_device(tower_options.devices[0]);
    if (!why.empty()) return why;
  } else if (!tower_options.devices[0].is_cuda() &&
             !(tower_options.logical_devices && gpu_count() == 0)) {
    return "the host makes its steps itself";
  }
  const auto model = Towers::make_model(options.model, tower_options.seed);
  return DeviceSteps::obstacle(options, config(), tower_options, *model);
}

// Forwards and backwards alone: the host, or who it speaks with, makes the updates.
bool Trainer::Impl::captures_towers(const TowerOptions& tower_options) const {
  if (is_on_device || !tower_options.on_gpus() || !config().devices.capture_steps) return false;
  if (tower_options.variable_strategy != VariableStrategy::kCpu) return false;
  const auto model = Towers::make_model(options.model, tower_options.seed);
  const std::string obstacle = CapturedSteps::obstacle(options, config(), tower_options, *model);
  if (!obstacle.empty()) log::info("steps are not captured: {}", obstacle);
  return obstacle.empty();
}

// How kernels are chosen, where the variables can be, and who makes steps.
void Trainer::Impl::prepare_devices(TowerOptions& tower_options) {
  compat::use_deterministic_algorithms(true);
  if (tower_options.on_gpus()) choose_gpu_kernels(config().reproducibility.deterministic);
  const std::string obstacle = why_not_on_device(tower_options);
  is_on_device = obstacle.empty();
  if (is_on_device || !is_shared() || !tower_options.on_gpus()) return;
  log::info("the tasks of a cluster exchange values on the CPU, where their variables are: {}",
            obstacle);
  tower_options.variable_strategy = VariableStrategy::kCpu;
}

void Trainer::Impl::make_parts(const TowerOptions& tower_options) {
  const bool is_captured = captures_towers(tower_options);
  if (tower_options.variable_strategy == VariableStrategy::kDevices || is_captured) {
    stream.emplace(tower_options.devices[0]);
  }
  towers.emplace(options.model, options.head.get(), tower_options);
  if (is_captured) {
    tower_steps.emplace(*towers, CapturedSteps::Options{.device = tower_options.devices[0],
                                                        .head = options.head.get()});
  }
  // The processors have the updates alone.
  const bool are_threads_given = config().reproducibility.threads_per_replica > 0;
  if (tower_options.on_gpus() && towers->home().is_cpu() && !are_threads_given) {
    set_cpu_threads(update_threads(towers->variables().flat().numel()));
  }
  layouts.emplace(towers->module_variables());
  updater.emplace(towers->variables(), options.optimizer);
  if (options.moving_average) average.emplace(towers->variables(), *options.moving_average);
  scale.emplace(config().reproducibility.precision == ComputeType::kFloat16);
  UpdateRules rules = options.update_rules();
  rules.checks_gradients |= scale->enabled();
  host_update.emplace(towers->variables(), *updater, rules, average ? &*average : nullptr);
  // In a cluster a GPU has nothing to do until the others have spoken: batches are ready by then.
  inputs.emplace(
      input_fn, tower_options.replicas, derive_key(tower_options.seed, seed_stream::kTrainInput),
      is_shared() && tower_options.on_gpus() ? BatchPrefetcher::Prepare(pinned) : nullptr);
}

void Trainer::Impl::prepare() {
  keep_freed_memory();
  strategy = is_shared() ? config().cluster.train_distribute(config()) : make_local_strategy();
  // In a cluster the others get the values from the chief.
  const auto checkpoint =
      config().is_chief() ? restore_latest(config().model_dir, check_run_state) : std::nullopt;
  const auto saved = checkpoint ? run_state_of(*checkpoint) : std::nullopt;
  TowerOptions tower_options = resolve(config(), options.model, saved);
  prepare_devices(tower_options);
  tower_options.may_discard = options.nan_policy.action != NanPolicy::Action::kStop ||
                              config().reproducibility.precision == ComputeType::kFloat16;
  tower_options.zero_debias_batch_norm = options.zero_debias_batch_norm;
  if (saved) compare(*saved, tower_options);
  if (is_shared()) {
    join(tower_options, checkpoint ? checkpoint_step(checkpoint->bundle.prefix()).value_or(0) : 0);
  } else {
    strategy->join({.replicas = tower_options.replicas});
  }
  tower_options.concurrent = concurrent_replicas(config(), tower_options);
  make_parts(tower_options);
  if (checkpoint) {
    restore(*checkpoint, saved);
  } else if (options.warm_start || !options.first_values.empty()) {
    warm_start_variables();
    towers->commit();
    // Averages begin with the values that the variables begin with.
    if (options.moving_average) average.emplace(towers->variables(), *options.moving_average);
  }
  if (is_on_device) {
    device_steps.emplace(options, config(), *towers, *updater, average ? &*average : nullptr);
  }
  resume_inputs(saved);
  strategy->attach(*this);
  // A chief that was lost after its last step has only the end to tell; others may be gone.
  const bool is_over = config().is_chief() && done();
  if (!is_over || !is_shared()) synchronize();
}

void Trainer::Impl::synchronize() {
  wait_until_copied();
  parts.reset();
  // Nothing that is captured holds connections of those that are gone.
  if (device_steps) device_steps->begin({});
  if (tower_steps) tower_steps->begin({});
  strategy->synchronize();
  if (const auto end = strategy->last_step(); end && !config().is_chief()) {
    end_at(*end == RunContract::kNoLastStep ? std::nullopt : end);
  }
  mine = strategy->replicas();
  if (device_steps) device_steps->begin(mine);
  if (tower_steps) tower_steps->begin(mine);
  if (inputs->is_open()) open_inputs();
}

// ---------------------------------------------------------------- what its strategy sees and does

RunSnapshot Trainer::Impl::snapshot() {
  return {.step = global_step(),
          .skipped_batches = bad_steps,
          .inputs_from = inputs->first(),
          .state_json = to_json(run_state()),
          .tensors = variables()};
}

void Trainer::Impl::restore_snapshot(const RunSnapshot& from) {
  const RunState state = parse_run_state(from.state_json, "the state of another task");
  jump_to(from.step);
  bad_steps = from.skipped_batches;
  scale->restore(state.loss_scale, state.loss_scale_steps);
  towers->commit();
  inputs->resume(state, from.inputs_from);
}

// To the last checkpoint.
void Trainer::Impl::roll_back_to_checkpoint() {
  if (!config().is_chief()) throw Internal("this task has no checkpoints to go back to");
  flush_checkpoints();
  const auto checkpoint = restore_latest(config().model_dir, check_run_state);
  if (!checkpoint) throw FailedPrecondition("there is no checkpoint to go back to");
  const auto saved = run_state_of(*checkpoint);
  restore(*checkpoint, saved);
  resume_inputs(saved);
}

double Trainer::Impl::decay_loss() const {
  return step_decay_loss ? *step_decay_loss : weight_decay();
}

double Trainer::Impl::weight_decay() const {
  return options.weight_decay.factor > 0
             ? weight_decay_loss(towers->variables(), options.weight_decay)
             : 0.0;
}

StepResult Trainer::Impl::update(std::int64_t step, PartialSums total) {
  StepResult result{
      .present = total.present, .examples = total.examples, .losses = std::move(total.losses)};
  if (result.present == 0) return result;
  Gradients mean = take_mean(total);
  if (!all_finite(result.losses)) {
    result.not_finite = "loss";
    return result;
  }
  result.decay_loss = host_update->prepare(mean, scale->value());
  const SquareSums norms = host_update->norms(mean);
  const bool finite = host_update->is_finite(mean, norms);
  // An overflow of float16 is the scale's business: it shrinks, and the batch is skipped.
  result.overflowed = scale->enabled() && !scale->update(finite);
  if (result.overflowed) return result;
  if (!finite) {
    result.not_finite = "gradient";
    return result;
  }
  host_update->apply(mean, step, norms);
  return result;
}

StepResult Trainer::Impl::prepare_local_gradients(PartialSums& own) {
  StepResult result{.present = own.present, .examples = own.examples, .losses = own.losses};
  if (own.present == 0) return result;
  std::optional<Gradients> total;
  for (auto& [part, sum] : own.sums) {
    if (!sum) continue;
    if (total) {
      add_gradients(*total, *sum);
    } else {
      total = std::move(sum);
    }
  }
  own.sums = {{{mine.first, mine.last}, std::move(total)}};
  Gradients mean = take_mean(own);
  if (!all_finite(result.losses)) {
    result.not_finite = "loss";
  } else {
    host_update->prepare(mean, scale->value());
    const SquareSums norms = host_update->norms(mean);
    if (!host_update->is_finite(mean, norms)) result.not_finite = "gradient";
    host_update->clip(mean, norms);
  }
  const bool stops = options.nan_policy.action == NanPolicy::Action::kStop;
  if (!result.not_finite.empty()) bad_input = first_not_finite(inputs->batches());
  if (!result.not_finite.empty() && stops) stop_for(result.not_finite, global_step() + 1);
  own.sums[{mine.first, mine.last}] =
      result.not_finite.empty() ? std::optional(std::move(mean)) : std::nullopt;
  return result;
}

// --------------------------------------------------------------------------------------- a step

// Gives the step to the device; what became of it is seen when somebody looks.
bool Trainer::Impl::make_device_step() {
  wait_until_copied();
  PartialSums given = device_steps->make(inputs->batches(), global_step());
  inputs->use_up();
  ++batches_taken;
  last_spec = std::move(given.spec);
  take_result(
      {.present = given.present, .examples = given.examples, .losses = std::move(given.losses)});
  advance();
  return true;
}

void Trainer::Impl::take_result(StepResult result) {
  last_loss.reset();
  last = std::move(result);
}

// Nothing where there is no step to finish: the run has ended, or the others are others now.
template <typename Work>
std::optional<StepResult> Trainer::Impl::or_synchronize(const Work& work) {
  const auto void_step = [this] {
    if (device_steps)
      device_steps->undo();
    else
      towers->discard();
  };
  try {
    std::optional<StepResult> result = work();
    if (!result) {
      void_step();
      request_stop("the run ends without this step");
    }
    return result;
  } catch (const PeersChanged& error) {
    log::warning("retrying step {}: {}", global_step() + 1, error.what());
    void_step();
    synchronize();
    return std::nullopt;
  }
}

// As make_device_step(), with peers: whether they are all there is seen in every step.
bool Trainer::Impl::make_shared_device_step() {
  wait_until_copied();
  PartialSums given;
  auto result = or_synchronize([&] {
    return strategy->step_on_device(
        global_step(), inputs->batches(), [&](DeviceSums& sums, bool has_all) {
          given = device_steps->make(inputs->batches(), global_step(), &sums, has_all);
        });
  });
  if (!result) return true;
  device_steps->keep();
  if (result->positions) inputs->set_positions(std::move(*result->positions));
  inputs->use_up();
  inputs_over = result->present == 0;
  if (inputs_over) return false;
  ++batches_taken;
  last_spec = std::move(given.spec);
  result->losses = std::move(given.losses);
  take_result(std::move(*result));
  stop_if_bad();
  advance();
  return true;
}

PartialSums Trainer::Impl::run_towers() {
  const auto run = [this](std::span<std::optional<Batch>> batches, const CapturedInput& captured) {
    return towers->run(batches, mine, global_step(), scale->value(), captured);
  };
  PartialSums own = tower_steps
                        ? tower_steps->make(inputs->batches(), global_step(), /*has_all=*/true, run)
                        : run(inputs->batches(), {});
  // Of the values that the step began with, while the GPU computes.
  if (tower_steps && is_shared()) step_decay_loss = weight_decay();
  towers->wait();
  return own;
}

// One update, or none for a batch that had to be skipped. False at the end of the input.
bool Trainer::Impl::make_step() {
  const bool has_batch = inputs->fetch(mine);
  if (device_steps && is_shared()) return make_shared_device_step();
  if (device_steps) return has_batch && make_device_step();
  if (has_batch && skipped.contains(batches_taken)) {
    inputs->use_up();
    ++batches_taken;
    return true;
  }
  PartialSums own = run_towers();
  EstimatorSpec own_spec = std::move(own.spec);
  // The values are written to.
  wait_until_copied();
  auto result = or_synchronize([&] { return strategy->apply(global_step(), std::move(own)); });
  if (!result) return true;
  if (result->positions) inputs->set_positions(std::move(*result->positions));
  if (!result->not_finite.empty()) bad_input = first_not_finite(inputs->batches());
  inputs->use_up();
  inputs_over = result->present == 0;
  if (inputs_over) {
    // Others may have made steps since this task's last.
    if (result->step) jump_to(*result->step);
    return false;
  }
  ++batches_taken;
  last_spec = std::move(own_spec);
  take_result(std::move(*result));
  if (last.overflowed) {
    towers->discard();
  } else if (!last.not_finite.empty()) {
    after_bad_step(last.not_finite);
  } else {
    towers->commit();
    jump_to(last.step.value_or(global_step() + 1));
  }
  return true;
}

void Trainer::Impl::roll_back() {
  skipped.insert(batches_taken - 1);
  roll_back_to_checkpoint();
  open_inputs();
  for_each_hook(&Hook::after_create_session);
}

void Trainer::Impl::stop_for(std::string_view what, std::int64_t step) const {
  const NanPolicy& policy = options.nan_policy;
  throw Aborted("the {} of step {} is not finite{}, or set a nan_policy that goes on{}", what, step,
                cause_of_bad_step(),
                policy.action == NanPolicy::Action::kStop
                    ? ""
                    : fmt::format(" ({} such steps are allowed)", policy.limit));
}

// What may have made it so, and what to do about that.
std::string Trainer::Impl::cause_of_bad_step() const {
  if (!bad_input.empty()) return fmt::format(", since {}; mend the input", bad_input);
  if (device_steps)
    return "; look for bad values in the input, lower the learning rate, clip the gradients";
  return fmt::format(", and all numbers of {} are: lower the learning rate, clip the gradients",
                     is_shared() ? "this task's input (other tasks tell of theirs)" : "its input");
}

void Trainer::Impl::stop_if_bad() const {
  if (const auto step = device_steps->first_bad_step()) stop_for("loss", *step);
}

// The variables have not been touched by the step.
void Trainer::Impl::after_bad_step(std::string_view what) {
  const NanPolicy& policy = options.nan_policy;
  const std::string since = bad_input.empty() ? "" : ", since " + bad_input;
  ++bad_steps;
  if (policy.action == NanPolicy::Action::kStop || bad_steps > policy.limit) {
    stop_for(what, global_step() + 1);
  }
  if (policy.action == NanPolicy::Action::kRollBack) {
    log::warning(
        "the {} of step {} is not finite: going back to the last checkpoint, and leaving its batch "
        "out ({} of {}){}",
        what, global_step() + 1, bad_steps, policy.limit, since);
    roll_back();
  } else {
    towers->discard();
    log::warning("the {} of step {} is not finite: its batch is skipped ({} of {}){}", what,
                 global_step() + 1, bad_steps, policy.limit, since);
  }
}

// ------------------------------------------------------------------------------ how a run ends

// The chief leaves with all that the last checkpoint needs of others, who wait until it is saved:
// until then they may be the only ones that have the last steps.
bool Trainer::Impl::leave() {
  try {
    if (config().is_chief()) {
      fetch_for_last_checkpoint();
      strategy->announce_end();
    } else {
      stop_with_chief(strategy->leave(stop_requested() && !inputs_over));
    }
    return true;
  } catch (const PeersChanged& error) {
    log::warning("step {} may not be saved yet: {}", global_step(), error.what());
    synchronize();
    return false;
  }
}

void Trainer::Impl::end_steps(int signal) {
  if (config().is_chief()) strategy->end(global_step(), inputs_over ? 0 : signal);
}

Trainer::Trainer(const EstimatorOptions& options, const RunConfig& config, const InputFn& input_fn,
                 const TrainOptions& train_options, const HooksOfRun& hooks)
    : impl_(std::make_unique<Impl>(options, config, input_fn, train_options, hooks)) {}
Trainer::~Trainer() = default;

void Trainer::begin() { impl_->begin(); }
bool Trainer::step() { return impl_->step(); }
bool Trainer::is_over() const { return impl_->is_over(); }
TrainResult Trainer::finish() { return impl_->finish(); }
Session& Trainer::session() { return *impl_; }
const Session& Trainer::session() const { return *impl_; }
std::shared_ptr<Model> Trainer::current_model() { return impl_->towers->current_model(); }

}  // namespace muster
