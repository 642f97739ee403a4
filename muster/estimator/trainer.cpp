#include "muster/estimator/trainer.h"

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
#include "muster/checkpoint/checkpoint.h"
#include "muster/device/devices.h"
#include "muster/device/gpu.h"
#include "muster/estimator/arithmetic.h"
#include "muster/estimator/device_steps.h"
#include "muster/estimator/loss_scale.h"
#include "muster/estimator/run_state.h"
#include "muster/estimator/run_terms.h"
#include "muster/estimator/seed_streams_internal.h"
#include "muster/estimator/strategy.h"
#include "muster/estimator/tensor_codec.h"
#include "muster/estimator/train_session.h"
#include "muster/kernels/torch_compat.h"
#include "muster/optim/update.h"
#include "muster/optim/updater.h"

namespace muster {
namespace {

// What R and threads_per_replica are, from the flags, the checkpoint and the machine, in this
// order.
TowerOptions resolve(const RunConfig& config, const ModelFactory& model,
                     const std::optional<RunState>& saved) {
  TowerOptions options{.seed = config.seed(),
                       .precision = config.precision,
                       .devices = tower_devices(config, model),
                       .variable_strategy = config.variable_strategy};
  if (config.precision == ComputeType::kFloat16 && !options.on_gpus()) {
    throw InvalidArgument(
        "RunConfig: precision float16 needs a GPU, and this run has none; use bfloat16");
  }
  const std::int64_t tasks = config.train_distribute ? config.task.num_worker_replicas : 1;
  const std::int64_t devices = tasks * static_cast<std::int64_t>(options.devices.size());
  options.replicas = config.replicas > 0 ? config.replicas : saved ? saved->replicas : devices;
  const auto processors = static_cast<int>(ThreadPool::available_processors());
  const int default_threads = options.replicas > 1 ? 1 : processors;
  options.threads_per_replica = config.threads_per_replica > 0 ? config.threads_per_replica
                                : saved                        ? saved->threads_per_replica
                                                               : default_threads;
  return options;
}

int concurrent_replicas(const RunConfig& config, const TowerOptions& options) {
  if (config.concurrent_replicas > 0) return config.concurrent_replicas;
  if (options.devices.size() > 1) return static_cast<int>(options.devices.size());
  const auto processors = static_cast<int>(ThreadPool::available_processors());
  return std::max(1, processors / options.threads_per_replica);
}

// What the bits of the run depend on, beside its options: what kinds of devices compute, not which
// of a kind.
std::string arithmetic_of(const TowerOptions& options) {
  const std::string line = arithmetic().fingerprint();
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

/// What a step by gradients needs.
struct Trainer::Impl final : TrainSession {
  Impl(const EstimatorOptions& estimator_options, const RunConfig& run_config, const InputFn& input,
       const TrainOptions& train)
      : TrainSession(run_config, train), options(estimator_options), input_fn(input) {}

  // Session
  double loss() override;
  const EstimatorSpec& spec() const override { return last.spec; }
  std::int64_t step_examples() const override { return last.examples; }
  std::map<std::string, double> learning_rates() const override;
  std::vector<NamedTensor> variables() const override;

  // TrainSession
  void prepare() override;
  void open_input() override;
  void log_begin() const override;
  bool make_step() override;
  Content content() override;
  bool leave() override;
  void end_steps() override;

  void fetch_slots();
  void prepare_devices(TowerOptions& tower_options) const;
  void join(TowerOptions& tower_options, std::int64_t first_step);
  void synchronize();
  void take_over(const RunImage& from);
  void go_back();
  StepNotes notes();
  void after_peers_changed(const PeersChanged& error);
  bool add_others(StepParts& parts);
  bool update_elsewhere(StepParts parts);
  std::string finish_own(StepParts& parts);
  std::optional<std::string> position_of(std::int64_t replica);
  void restore(const OpenCheckpoint& checkpoint, const std::optional<RunState>& saved);
  void warm_start_variables();
  void resume_inputs(const std::optional<RunState>& saved);
  void open_inputs();
  std::unique_ptr<Iterator<Batch>> open_input_of(std::int64_t replica) const;
  bool next_batches();
  bool make_device_step();
  void stop_if_bad() const;
  [[noreturn]] void stop_for(std::string_view what, std::int64_t step) const;
  void after_bad_step(std::string_view what);
  void roll_back();
  RunState run_state() const;
  std::vector<NamedTensor> checkpoint_tensors() const;

  const EstimatorOptions options;
  const InputFn input_fn;

  /// First, so that it ends last.
  std::optional<StreamScope> stream;
  std::optional<Towers> towers;
  std::optional<Updater> updater;
  std::optional<MovingAverage> average;
  /// How the mean gradients change the variables.
  std::optional<HostUpdate> update;
  /// On a GPU that makes steps by itself.
  std::optional<DeviceSteps> device_steps;
  std::optional<CheckpointLayouts> layouts;
  std::optional<LossScale> scale;
  /// Null where this process runs all replicas.
  std::unique_ptr<Strategy> strategy;
  ReplicaRange mine;
  // By replica of the run; those of other processes have no input and no batch here.
  std::vector<std::unique_ptr<Iterator<Batch>>> inputs;
  std::vector<std::optional<Batch>> batches;
  /// Whether the replica has its batch of the step that is to be made, or knows there is none.
  std::vector<bool> fetched;
  /// Where inputs stand between steps, as far as they can tell; of this process's own inputs they
  /// are up to date only where there is a strategy.
  std::vector<std::optional<std::string>> positions;
  std::string input_obstacle;
  /// Steps and left-out batches when inputs were last opened without a position.
  std::int64_t inputs_from = 0;
  bool inputs_wanted = false;
  /// No replica of any process has a batch.
  bool inputs_over = false;
  /// The step whose slots were fetched last, while the values are still those.
  std::optional<std::int64_t> slots_of;
  /// Of the checkpoint that the run began with.
  std::optional<RunState> resumed;
  StepGradients last;
  std::optional<double> last_loss;
  double decay_loss = 0;
  std::int64_t bad_steps = 0;
  /// Batches that were taken from the inputs, of each replica one; also of checkpoints by step.
  std::int64_t batches_taken = 0;
  std::map<std::int64_t, std::int64_t> taken_at;
  /// By number, those that are left out whenever they come again after a roll-back.
  std::set<std::int64_t> left_out;
};

double Trainer::Impl::loss() {
  if (!last_loss) {
    if (device_steps) {
      stop_if_bad();
      decay_loss = device_steps->decay_loss();
    }
    double sum = 0;
    for (const auto& loss : last.losses) {
      if (loss.defined()) sum += loss.item<double>();
    }
    last_loss =
        last.present == 0 ? std::nan("") : sum / static_cast<double>(last.present) + decay_loss;
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

// Asks an input that cannot tell only once.
std::optional<std::string> Trainer::Impl::position_of(std::int64_t replica) {
  if (!input_obstacle.empty()) return std::nullopt;
  try {
    return inputs[static_cast<std::size_t>(replica)]->save();
  } catch (const FailedPrecondition& error) {
    input_obstacle = error.what();
    return std::nullopt;
  }
}

RunState Trainer::Impl::run_state() const {
  RunState state{.global_step = global_step(),
                 .replicas = towers->options().replicas,
                 .threads_per_replica = towers->options().threads_per_replica,
                 .seed = towers->options().seed,
                 .arithmetic = arithmetic_of(towers->options()),
                 .loss_scale = scale->value(),
                 .loss_scale_steps = scale->good_steps()};
  state.inputs = positions;
  state.input_obstacle = input_obstacle;
  return state;
}

// Of the step that this process is at; throws PeersChanged.
void Trainer::Impl::fetch_slots() {
  if (slots_of == global_step()) return;
  strategy->fetch_slots();
  slots_of = global_step();
}

TrainSession::Content Trainer::Impl::content() {
  // Nothing bad is ever saved.
  if (device_steps) stop_if_bad();
  for (bool fetched_all = strategy == nullptr; !fetched_all;) {
    try {
      fetch_slots();
      fetched_all = true;
    } catch (const PeersChanged& error) {
      log::warning("slots are asked for again: {}", error.what());
      synchronize();
    }
  }
  if (strategy == nullptr) {
    for (std::int64_t r = mine.first; r < mine.last; ++r) {
      positions[static_cast<std::size_t>(r)] = position_of(r);
    }
  }
  taken_at[global_step()] = batches_taken;
  const RunState state = run_state();
  if (!state.input_obstacle.empty() && !saved_any()) {
    log::warning("the input's position is not saved, a resume will start it anew: {}",
                 state.input_obstacle);
  }
  const auto encoded = std::make_shared<EncodedTensors>(encode(checkpoint_tensors(), *layouts));
  return {.tensors = encoded->views, .state_json = to_json(state), .owner = encoded};
}

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
  slots_of.reset();
  towers->commit();
  if (saved) scale->restore(saved->loss_scale, saved->loss_scale_steps);
}

// Where the inputs go on; they are opened by open_inputs().
void Trainer::Impl::resume_inputs(const std::optional<RunState>& saved) {
  const auto replicas = static_cast<std::size_t>(towers->options().replicas);
  inputs.clear();
  inputs.resize(replicas);
  batches.assign(replicas, std::nullopt);
  fetched.assign(replicas, false);
  positions.assign(replicas, std::nullopt);
  inputs_from = global_step() + bad_steps;
  if (!saved) return;
  if (saved->inputs.size() == replicas) {
    positions = saved->inputs;
    input_obstacle = saved->input_obstacle;
  } else {
    log::warning("the input starts anew: its position was saved for {} replicas", saved->replicas);
  }
}

std::unique_ptr<Iterator<Batch>> Trainer::Impl::open_input_of(std::int64_t replica) const {
  const TowerOptions& run = towers->options();
  const InputContext context(Mode::kTrain, run.replicas, replica,
                             derive_key(run.seed, seed_stream::kTrainInput));
  const auto& position = positions[static_cast<std::size_t>(replica)];
  try {
    const Dataset<Batch> dataset = input_fn(context);
    if (position) return dataset.iterate(*position);
    auto input = dataset.iterate();
    // Another process may have read so far: what it took is read again.
    for (auto step = inputs_from; step < global_step() + bad_steps; ++step) input->next();
    return input;
  } catch (Error& error) {
    error.add_context(fmt::format("opening the input of replica {}", replica));
    throw;
  }
}

// Those of this process's replicas; those that it runs no longer are closed.
void Trainer::Impl::open_inputs() {
  for (std::int64_t r = 0; r < towers->options().replicas; ++r) {
    const auto index = static_cast<std::size_t>(r);
    if (!mine.contains(r)) {
      inputs[index].reset();
      batches[index].reset();
      fetched[index] = false;
    } else if (inputs[index] == nullptr) {
      inputs[index] = open_input_of(r);
    }
  }
}

void Trainer::Impl::open_input() {
  inputs_wanted = true;
  open_inputs();
}

// The chief's terms are those of the run.
void Trainer::Impl::join(TowerOptions& tower_options, std::int64_t first_step) {
  if (options.nan_policy.action == NanPolicy::Action::kRollBack) {
    throw Unimplemented(
        "nan_policy kRollBack works in one process alone so far; use kStop or kSkipBatch in a "
        "cluster");
  }
  if (options.moving_average && strategy->keeps_variables()) {
    throw Unimplemented(
        "moving_average needs the variables in the process; train without ps tasks");
  }
  // What a task was not told is not its to say.
  const bool decides = config().is_chief();
  // Those who keep the variables have no GPU, and are held to the same words.
  const bool has_servers = strategy->keeps_variables();
  const auto own_end = last_step_from(first_step);
  const RunTerms terms = strategy->join(
      {.replicas = decides ? tower_options.replicas : config().replicas,
       .threads_per_replica =
           decides ? tower_options.threads_per_replica : config().threads_per_replica,
       .seed = tower_options.seed,
       .precision = tower_options.precision,
       .arithmetic = has_servers ? arithmetic().fingerprint() : arithmetic_of(tower_options),
       .last_step = own_end.value_or(RunTerms::kNoLastStep),
       .others =
           terms_of(options, config(), *Towers::make_model(options.model, tower_options.seed))});
  tower_options.replicas = terms.replicas;
  tower_options.threads_per_replica = terms.threads_per_replica;
  tower_options.seed = terms.seed;
  if (decides) end_at(own_end);
  // Where a number of steps begins, the chief alone knows.
  if (!decides && has_last_step() && *own_end != terms.last_step) {
    log::warning(
        "the chief ends the run {}; that this task was told to end at step {} does not count",
        terms.last_step == RunTerms::kNoLastStep ? std::string("with its input")
                                                 : fmt::format("at step {}", terms.last_step),
        *own_end);
  }
  tower_options.shared = true;
  tower_options.may_discard = true;
}

void Trainer::Impl::take_over(const RunImage& from) {
  const RunState state = parse_run_state(from.state_json, "the state of another task");
  slots_of.reset();
  jump_to(from.step);
  bad_steps = from.left_out;
  scale->restore(state.loss_scale, state.loss_scale_steps);
  towers->commit();
  resume_inputs(state);
  inputs_from = from.inputs_from;
}

// To the last checkpoint.
void Trainer::Impl::go_back() {
  flush_checkpoints();
  const auto checkpoint = restore_latest(config().model_dir, check_run_state);
  if (!checkpoint) throw FailedPrecondition("there is no checkpoint to go back to");
  const auto saved = run_state_of(*checkpoint);
  restore(*checkpoint, saved);
  resume_inputs(saved);
}

void Trainer::Impl::synchronize() {
  wait_until_copied();
  const auto image = [this] {
    return RunImage{.step = global_step(),
                    .left_out = bad_steps,
                    .inputs_from = inputs_from,
                    .state_json = to_json(run_state()),
                    .tensors = variables()};
  };
  strategy->synchronize(
      image, [this](const RunImage& from) { take_over(from); }, [this] { go_back(); });
  if (const auto end = strategy->last_step(); end && !config().is_chief()) {
    end_at(*end == RunTerms::kNoLastStep ? std::nullopt : end);
  }
  mine = strategy->replicas();
  if (inputs_wanted) open_inputs();
}

StepNotes Trainer::Impl::notes() {
  StepNotes notes{.positions = positions,
                  .buffers = towers->buffers(),
                  .flat_size = towers->variables().flat().numel(),
                  .tables = towers->variables().sparse_count()};
  for (std::int64_t r = mine.first; r < mine.last; ++r) {
    notes.positions[static_cast<std::size_t>(r)] = position_of(r);
  }
  return notes;
}

void Trainer::Impl::after_peers_changed(const PeersChanged& error) {
  log::warning("step {} is made again: {}", global_step() + 1, error.what());
  towers->discard();
  synchronize();
}

// Makes the parts of this process those of all. False when there is no step to finish: the run has
// ended, or the others are others now.
bool Trainer::Impl::add_others(StepParts& parts) {
  StepNotes said = notes();
  try {
    auto total = strategy->sum(global_step(), std::move(parts), said);
    if (!total) {
      towers->discard();
      request_stop("the run ends without this step");
      return false;
    }
    parts = std::move(*total);
    positions = std::move(said.positions);
    return true;
  } catch (const PeersChanged& error) {
    after_peers_changed(error);
    return false;
  }
}

// Makes the mean of this process's replicas of the parts, as the optimizers are to have it. Returns
// what of it is not finite, if anything is: then there is no sum.
std::string Trainer::Impl::finish_own(StepParts& parts) {
  if (parts.present == 0) return {};
  std::optional<Gradients> total;
  for (auto& [part, sum] : parts.sums) {
    if (!sum) continue;
    if (total) {
      add_gradients(*total, *sum);
    } else {
      total = std::move(sum);
    }
  }
  parts.sums = {{{mine.first, mine.last}, std::move(total)}};
  last = mean_of(std::move(parts));
  parts = {.present = last.present,
           .examples = last.examples,
           .losses = last.losses,
           .spec = std::move(last.spec)};
  std::string not_finite = all_finite(last.losses) ? "" : "loss";
  if (not_finite.empty()) {
    update->prepare(last.mean, scale->value());
    const SquareSums norms = update->norms(last.mean);
    if (!update->is_finite(last.mean, norms)) not_finite = "gradient";
    update->clip(last.mean, norms);
  }
  // Before anybody hears of the batch: whoever gets the replica next is to stop there too.
  if (!not_finite.empty() && options.nan_policy.action == NanPolicy::Action::kStop) {
    after_bad_step(not_finite);
  }
  parts.sums[{mine.first, mine.last}] =
      not_finite.empty() ? std::optional(last.mean) : std::nullopt;
  return not_finite;
}

// The whole step, where those who hold the variables make it. False at the end of the input.
bool Trainer::Impl::update_elsewhere(StepParts parts) {
  StepNotes said = notes();
  // What this process alone decides, where it makes a step alone.
  const std::string not_finite = strategy->applies_each_push() ? finish_own(parts) : "";
  last.spec = std::move(parts.spec);
  // The values are written to.
  wait_until_copied();
  slots_of.reset();
  // Of the values that the step began with, as where one process makes it.
  if (options.weight_decay.factor > 0) {
    decay_loss = weight_decay_loss(towers->variables(), options.weight_decay);
  }
  std::optional<StepOutcome> outcome;
  try {
    outcome = strategy->update(global_step(), std::move(parts), said);
  } catch (const PeersChanged& error) {
    after_peers_changed(error);
    return true;
  }
  if (!outcome) {
    towers->discard();
    request_stop("the run ends without this step");
    return true;
  }
  positions = std::move(said.positions);
  fetched.assign(fetched.size(), false);
  inputs_over = outcome->present == 0;
  if (inputs_over) {
    // Others may have made steps since this task's last.
    if (outcome->step) jump_to(*outcome->step);
    return false;
  }
  last_loss.reset();
  last.present = outcome->present;
  last.examples = outcome->examples;
  last.losses = std::move(outcome->losses);
  if (!not_finite.empty()) outcome->not_finite = not_finite;
  if (!outcome->not_finite.empty()) {
    after_bad_step(outcome->not_finite);
    return true;
  }
  towers->commit();
  jump_to(outcome->step.value_or(global_step() + 1));
  return true;
}

// The chief leaves with all that the last checkpoint needs of others, who wait until it is saved:
// until then they may be the only ones that have the last steps.
bool Trainer::Impl::leave() {
  if (strategy == nullptr) return true;
  try {
    if (config().is_chief()) {
      fetch_slots();
      strategy->announce_end();
    } else {
      strategy->finish(global_step(), stop_requested() && !inputs_over);
    }
    return true;
  } catch (const PeersChanged& error) {
    log::warning("step {} may not be saved yet: {}", global_step(), error.what());
    synchronize();
    return false;
  }
}

void Trainer::Impl::end_steps() {
  if (strategy != nullptr && config().is_chief()) strategy->finish(global_step(), false);
}

// How kernels are chosen, and where the variables can be.
void Trainer::Impl::prepare_devices(TowerOptions& tower_options) const {
  compat::use_deterministic_algorithms(true);
  if (!tower_options.on_gpus()) return;
  choose_gpu_kernels(config().deterministic);
  if (strategy != nullptr && tower_options.variable_strategy != VariableStrategy::kCpu) {
    log::info("the tasks of a cluster exchange values on the CPU, where their variables are");
    tower_options.variable_strategy = VariableStrategy::kCpu;
  }
}

void Trainer::Impl::prepare() {
  keep_freed_memory();
  if (config().train_distribute) strategy = config().train_distribute(config());
  // In a cluster the others get the values from the chief.
  const auto checkpoint =
      config().is_chief() ? restore_latest(config().model_dir, check_run_state) : std::nullopt;
  if (checkpoint) resumed = run_state_of(*checkpoint);
  TowerOptions tower_options = resolve(config(), options.model, resumed);
  prepare_devices(tower_options);
  tower_options.may_discard = options.nan_policy.action != NanPolicy::Action::kStop ||
                              config().precision == ComputeType::kFloat16;
  tower_options.zero_debias_batch_norm = options.zero_debias_batch_norm;
  if (resumed) compare(*resumed, tower_options);
  if (strategy != nullptr) {
    join(tower_options, checkpoint ? checkpoint_step(checkpoint->bundle.prefix()).value_or(0) : 0);
  }
  tower_options.concurrent = concurrent_replicas(config(), tower_options);
  mine = {0, tower_options.replicas};
  if (strategy == nullptr && tower_options.variable_strategy == VariableStrategy::kDevices) {
    stream.emplace(tower_options.devices[0]);
  }
  towers.emplace(options.model, options.head.get(), tower_options);
  layouts.emplace(towers->module_variables());
  updater.emplace(towers->variables(), options.optimizers);
  if (options.moving_average) average.emplace(towers->variables(), *options.moving_average);
  scale.emplace(config().precision == ComputeType::kFloat16);
  if (checkpoint) {
    restore(*checkpoint, resumed);
  } else if (options.warm_start || !options.first_values.empty()) {
    warm_start_variables();
    towers->commit();
    // Averages begin with the values that the variables begin with.
    if (options.moving_average) average.emplace(towers->variables(), *options.moving_average);
  }
  UpdateRules rules = options.update_rules();
  rules.checks_gradients |= scale->enabled();
  update.emplace(towers->variables(), *updater, rules, average ? &*average : nullptr);
  if (strategy == nullptr && DeviceSteps::can_make(options, config(), *towers)) {
    device_steps.emplace(options, config(), *towers, *updater, average ? &*average : nullptr);
  }
  resume_inputs(resumed);
  if (strategy != nullptr) {
    strategy->attach(towers->variables(), *updater);
    // A chief that was lost after its last step has only the end to tell; others may be gone.
    const bool is_over = config().is_chief() && done();
    if (!is_over) synchronize();
  }
}

// False when no replica of this process has one.
bool Trainer::Impl::next_batches() {
  bool any = false;
  for (auto r = static_cast<std::size_t>(mine.first); r < static_cast<std::size_t>(mine.last);
       ++r) {
    if (!fetched[r]) {
      batches[r] = inputs[r]->next();
      fetched[r] = true;
    }
    any |= batches[r].has_value();
  }
  return any;
}

void Trainer::Impl::roll_back() {
  left_out.insert(batches_taken - 1);
  go_back();
  batches_taken = taken_at[global_step()];
  open_inputs();
  for_each_hook(&Hook::after_create_session);
}

void Trainer::Impl::stop_for(std::string_view what, std::int64_t step) const {
  const NanPolicy& policy = options.nan_policy;
  throw Aborted(
      "the {} of step {} is not finite; lower the learning rate, clip the gradients, look at the "
      "input, or set a nan_policy that goes on{}",
      what, step,
      policy.action == NanPolicy::Action::kStop
          ? ""
          : fmt::format(" ({} such steps are allowed)", policy.limit));
}

void Trainer::Impl::stop_if_bad() const {
  if (const auto step = device_steps->first_bad_step()) stop_for("loss", *step);
}

// The variables have not been touched by the step.
void Trainer::Impl::after_bad_step(std::string_view what) {
  const NanPolicy& policy = options.nan_policy;
  ++bad_steps;
  if (policy.action == NanPolicy::Action::kStop || bad_steps > policy.limit) {
    stop_for(what, global_step() + 1);
  }
  if (policy.action == NanPolicy::Action::kRollBack) {
    log::warning(
        "the {} of step {} is not finite: going back to the last checkpoint, and leaving its batch "
        "out "
        "({} of {})",
        what, global_step() + 1, bad_steps, policy.limit);
    roll_back();
  } else {
    towers->discard();
    log::warning("the {} of step {} is not finite: its batch is left out ({} of {})", what,
                 global_step() + 1, bad_steps, policy.limit);
  }
}

// Gives the step to the device; what became of it is seen when somebody looks.
bool Trainer::Impl::make_device_step() {
  if (!next_batches()) return false;
  wait_until_copied();
  last_loss.reset();
  last = device_steps->make(batches, global_step());
  fetched.assign(fetched.size(), false);
  advance();
  return true;
}

// One update, or none for a batch that had to be left out. False at the end of the input.
bool Trainer::Impl::make_step() {
  if (device_steps) return make_device_step();
  if (!next_batches() && strategy == nullptr) return false;
  if (left_out.contains(batches_taken)) {
    fetched.assign(fetched.size(), false);
    ++batches_taken;
    return true;
  }
  StepParts parts = towers->run(batches, mine, global_step(), scale->value());
  if (strategy != nullptr && strategy->keeps_variables()) return update_elsewhere(std::move(parts));
  if (strategy != nullptr && !add_others(parts)) return true;
  fetched.assign(fetched.size(), false);
  ++batches_taken;
  inputs_over = parts.present == 0;
  if (inputs_over) return false;
  last_loss.reset();
  last = mean_of(std::move(parts));
  wait_until_copied();
  if (!all_finite(last.losses)) {
    after_bad_step("loss");
    return true;
  }
  decay_loss = update->prepare(last.mean, scale->value());
  const SquareSums norms = update->norms(last.mean);
  const bool finite = update->is_finite(last.mean, norms);
  // An overflow of float16 is the scale's business: it shrinks, and the batch is left out.
  if (scale->enabled() && !scale->update(finite)) {
    towers->discard();
    return true;
  }
  if (!finite) {
    after_bad_step("gradient");
    return true;
  }
  update->apply(last.mean, global_step(), norms);
  towers->commit();
  advance();
  return true;
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
}

Trainer::Trainer(const EstimatorOptions& options, const RunConfig& config, const InputFn& input_fn,
                 const TrainOptions& train_options)
    : impl_(std::make_unique<Impl>(options, config, input_fn, train_options)) {}
Trainer::~Trainer() = default;

void Trainer::begin() { impl_->begin(); }
bool Trainer::step() { return impl_->step(); }
bool Trainer::is_over() const { return impl_->is_over(); }
TrainResult Trainer::finish() { return impl_->finish(); }
Session& Trainer::session() { return *impl_; }
const Session& Trainer::session() const { return *impl_; }

}  // namespace muster
