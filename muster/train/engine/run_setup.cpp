#include "muster/train/engine/run_setup.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/freed_memory.h"
#include "muster/base/host_memory.h"
#include "muster/base/log.h"
#include "muster/base/thread_pool.h"
#include "muster/nn/device/devices.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/train/engine/arithmetic.h"
#include "muster/train/engine/captured_steps.h"
#include "muster/train/engine/device_steps.h"
#include "muster/train/engine/memory_plan.h"
#include "muster/train/engine/run_terms.h"
#include "muster/train/engine/seeded_model.h"

namespace muster {
namespace {

bool is_shared(const RunConfig& config) {
  return static_cast<bool>(config.cluster.train_distribute);
}

// A GPU leaves its processors to updates and inputs, whatever the model is.
int threads_by_size(const ModelFactory& model, const TowerOptions& options) {
  const int most = default_cpu_threads();
  if (most == 1 || options.on_gpus()) return most;
  return threads_for_model(variables_of(*make_seeded_model(model, options.seed)), most);
}

// By the configuration, the checkpoint and the machine, in this order. Tasks of a cluster may have
// other machines, so they are told.
CompileMode compile_mode_of(const RunConfig& config, const TowerOptions& options,
                            const std::optional<RunState>& saved) {
  if (config.reproducibility.compile) return *config.reproducibility.compile;
  if (is_shared(config)) return CompileMode::kOff;
  if (saved) return mode_of_term(saved->compile);
  // Not by how many: bits do not depend on that.
  const bool all_gpus = std::ranges::all_of(
      options.devices, [](const c10::Device& device) { return device.is_cuda(); });
  return all_gpus && options.precision != ComputeType::kFloat16 ? CompileMode::kOn
                                                                : CompileMode::kOff;
}

// Replicas and threads_per_replica come from the flags, the checkpoint and the machine, in this
// order.
TowerOptions resolve(const RunConfig& config, const ModelFactory& model,
                     const std::optional<RunState>& saved) {
  TowerOptions options{.seed = config.seed(),
                       .precision = config.reproducibility.precision,
                       .recompute = config.recompute,
                       .devices = tower_devices(config, model),
                       .variable_strategy = config.devices.variable_strategy,
                       .logical_devices = config.devices.logical_devices,
                       .own_cpu_kernels = config.reproducibility.own_cpu_kernels};
  options.compile = compile_mode_of(config, options, saved);
  if (config.is_chief()) options.compile_report = config.model_dir / "compile.txt";
  if (config.reproducibility.precision == ComputeType::kFloat16 && !options.on_gpus()) {
    throw InvalidArgument(
        "RunConfig: precision float16 needs a GPU, and this run has none; use bfloat16");
  }
  if (!options.recompute.empty() && options.on_gpus()) {
    throw Unimplemented(
        "RunConfig: recompute \"{}\" works on CPUs so far, and this task has {}; set "
        "RunConfig::devices.names to cpu, or leave recompute empty",
        options.recompute, describe(options.devices));
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

// Warns of what changes with this resume: the weights will differ from those of an undisturbed
// run's.
void compare(const RunState& saved, const TowerOptions& now) {
  check_compile(saved.compile, now.compile);
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

std::string why_not_on_device(const EstimatorOptions& options, const RunConfig& config,
                              const GradientReduction& reduction,
                              const TowerOptions& tower_options) {
  if (is_shared(config)) {
    const std::string why = reduction.why_not_on_device(tower_options.devices[0]);
    if (!why.empty()) return why;
  } else if (!tower_options.devices[0].is_cuda() &&
             !(tower_options.logical_devices && gpu_count() == 0)) {
    return "the host makes its steps itself";
  }
  const auto model = make_seeded_model(options.model, tower_options.seed);
  return DeviceSteps::obstacle(options, config, tower_options, *model);
}

// How kernels are chosen, where the variables can be, and who makes steps.
void prepare_devices(const EstimatorOptions& options, const RunConfig& config,
                     const GradientReduction& reduction, RunPlan& plan) {
  TowerOptions& tower_options = plan.towers;
  compat::use_deterministic_algorithms(true);
  if (tower_options.on_gpus()) choose_gpu_kernels(config.reproducibility.deterministic);
  const std::string obstacle = why_not_on_device(options, config, reduction, tower_options);
  plan.is_on_device = obstacle.empty();
  if (plan.is_on_device || !is_shared(config) || !tower_options.on_gpus()) return;
  log::info("the tasks of a cluster exchange values on the CPU, where their variables are: {}",
            obstacle);
  tower_options.variable_strategy = VariableStrategy::kCpu;
}

// Forwards and backwards alone: the host, or who it speaks with, makes the updates.
bool captures_towers(const EstimatorOptions& options, const RunConfig& config,
                     const RunPlan& plan) {
  const TowerOptions& tower_options = plan.towers;
  if (plan.is_on_device || !tower_options.on_gpus() || !config.devices.capture_steps) return false;
  if (tower_options.variable_strategy != VariableStrategy::kCpu) return false;
  const auto model = make_seeded_model(options.model, tower_options.seed);
  const std::string obstacle = CapturedSteps::obstacle(options, config, tower_options, *model);
  if (!obstacle.empty()) log::info("steps are not captured: {}", obstacle);
  return obstacle.empty();
}

// Throws where RunConfig::sharding asks for what there is not.
bool shards(const RunConfig& config, const Strategy& strategy, const GradientReduction& reduction,
            const TowerOptions& towers) {
  if (config.sharding == Sharding::kOff) return false;
  const std::string_view wanted = name_of(config.sharding);
  if (!is_shared(config)) {
    log::info("sharding={}: this process is alone, and holds everything", wanted);
    return false;
  }
  if (!reduction.is_sharded()) {
    throw Unimplemented(
        "RunConfig: sharding {} is for a collective, where every task has a copy of everything; "
        "this run's strategy is '{}': leave sharding off",
        wanted, strategy.describe());
  }
  if (towers.on_gpus()) {
    throw Unimplemented(
        "RunConfig: sharding {} works on CPUs so far, and this task has {}; set "
        "RunConfig::devices.names to cpu, or leave sharding off",
        wanted, describe(towers.devices));
  }
  return true;
}

// Throws where the state cannot be in the memory of the host. That of GPUs is not counted.
void check_host_memory(const EstimatorOptions& options, const RunConfig& config,
                       const RunPlan& plan) {
  const TowerOptions& towers = plan.towers;
  if (towers.on_gpus()) return;
  const std::int64_t tasks =
      is_shared(config) ? std::max<std::int64_t>(1, config.cluster.task.num_worker_replicas) : 1;
  const std::int64_t shards = plan.is_sharded ? tasks : 1;
  const auto model = make_seeded_model(options.model, towers.seed);
  const bool saves = config.checkpoints.save_checkpoints && (config.is_chief() || shards > 1);
  check_memory(options, variables_of(*model),
               {.shards = shards,
                .divides_gradients = plan.divides_gradients,
                .is_shared = is_shared(config),
                .lanes = static_cast<std::int64_t>(towers.lanes()),
                .replicas = (towers.replicas + tasks - 1) / tasks,
                .saves = saves},
               memory_of_process());
}

// The chief's terms are those of the run.
void join_cluster(const EstimatorOptions& options, const RunContext& context, RunSetup& setup) {
  const RunConfig& config = context.config;
  TowerOptions& tower_options = setup.plan.towers;
  if (options.nan_policy.action == NanPolicy::Action::kRollBack) {
    throw Unimplemented(
        "nan_policy kRollBack works in one process alone so far; use kStop or kSkipBatch in a "
        "cluster");
  }
  setup.strategy->check(options);
  // Tasks other than the chief state only the replicas and threads that they were told.
  const bool decides = config.is_chief();
  const auto own_end = context.progress.last_step_from(setup.from ? setup.from->step() : 0);
  auto others = terms_of(options, config, *make_seeded_model(options.model, tower_options.seed));
  others.push_back({"compile", compile_term(tower_options.compile)});
  if (tower_options.on_gpus()) {
    others.push_back(
        {"gradients are summed", setup.plan.is_on_device ? "on the GPUs" : "on the CPU"});
  }
  const RunContract terms = setup.strategy->membership().join(
      {.replicas = decides ? tower_options.replicas : config.reproducibility.replicas,
       .threads_per_replica =
           decides ? tower_options.threads_per_replica : config.reproducibility.threads_per_replica,
       .seed = tower_options.seed,
       .precision = tower_options.precision,
       .arithmetic = arithmetic_of(tower_options),
       .last_step = own_end.value_or(RunContract::kNoLastStep),
       .others = std::move(others)});
  tower_options.replicas = terms.replicas;
  tower_options.threads_per_replica = terms.threads_per_replica;
  tower_options.seed = terms.seed;
  if (decides) context.progress.end_at(own_end);
  // Where a number of steps begins, the chief alone knows.
  if (!decides && context.progress.names_last_step() && *own_end != terms.last_step) {
    log::warning(
        "the chief ends the run {}; that this task was told to end at step {} does not count",
        terms.last_step == RunContract::kNoLastStep ? std::string("with its input")
                                                    : fmt::format("at step {}", terms.last_step),
        *own_end);
  }
  tower_options.shared = true;
  tower_options.may_discard = true;
}

}  // namespace

std::string arithmetic_of(const TowerOptions& options) {
  const std::string line = numerics_fingerprint(options.own_cpu_kernels).fingerprint();
  if (!options.on_gpus()) return line;
  std::set<std::string> kinds;
  for (const c10::Device device : options.devices) {
    kinds.insert(device.is_cuda() ? gpu_name(device) : "cpu");
  }
  return fmt::format("{}, {}", line, fmt::join(kinds, " and "));
}

RunSetup set_up_run(const EstimatorOptions& options, const RunContext& context) {
  const RunConfig& config = context.config;
  keep_freed_memory();
  RunSetup setup{.strategy = is_shared(config) ? config.cluster.train_distribute(config)
                                               : make_local_strategy()};
  // In a cluster the others get the values from the chief.
  if (config.is_chief()) setup.from = latest_resume_point(config.model_dir);
  const std::optional<RunState> saved = setup.from ? setup.from->state : std::nullopt;
  TowerOptions& towers = setup.plan.towers;
  towers = resolve(config, options.model, saved);
  setup.plan.is_sharded = shards(config, *setup.strategy, setup.strategy->reduction(), towers);
  setup.plan.divides_gradients = setup.plan.is_sharded && config.sharding == Sharding::kGradients;
  // Compiled steps write where they were compiled to write.
  towers.releases_gradients = setup.plan.divides_gradients && towers.compile == CompileMode::kOff;
  prepare_devices(options, config, setup.strategy->reduction(), setup.plan);
  towers.may_discard = options.nan_policy.action != NanPolicy::Action::kStop ||
                       config.reproducibility.precision == ComputeType::kFloat16;
  towers.zero_debias_batch_norm = options.zero_debias_batch_norm;
  towers.optimizer = options.optimizer;
  if (saved) compare(*saved, towers);
  if (is_shared(config)) {
    join_cluster(options, context, setup);
  } else {
    setup.strategy->membership().join({.replicas = towers.replicas});
  }
  towers.concurrent = concurrent_replicas(config, towers);
  check_host_memory(options, config, setup.plan);
  setup.plan.captures_towers = captures_towers(options, config, setup.plan);
  return setup;
}

}  // namespace muster
