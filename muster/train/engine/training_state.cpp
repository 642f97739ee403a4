#include "muster/train/engine/training_state.h"

#include <fmt/core.h>
#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "muster/base/log.h"
#include "muster/train/engine/arithmetic.h"

namespace muster {
namespace {

std::unique_ptr<StreamScope> stream_of(const RunPlan& plan) {
  const bool is_needed =
      plan.towers.variable_strategy == VariableStrategy::kDevices || plan.captures_towers;
  return is_needed ? std::make_unique<StreamScope>(plan.towers.devices[0]) : nullptr;
}

std::optional<MovingAverage> average_of(const EstimatorOptions& options, const Variables& variables,
                                        const std::optional<FlatRange>& held) {
  if (!options.moving_average) return std::nullopt;
  return MovingAverage(variables, *options.moving_average, held);
}

UpdateRules rules_of(const EstimatorOptions& options, const LossScale& scale) {
  UpdateRules rules = options.update_rules();
  rules.checks_gradients |= scale.enabled();
  return rules;
}

}  // namespace

TrainingState::TrainingState(const EstimatorOptions& options, const RunConfig& config,
                             const RunPlan& plan, bool is_fresh)
    : stream_(stream_of(plan)),
      towers_(options.model, options.head.get(), plan.towers),
      layouts_(towers_.module_variables()),
      divides_gradients_(plan.divides_gradients),
      held_(plan.is_sharded ? std::optional(FlatRange{}) : std::nullopt),
      updater_(towers_.variables(), options.optimizer, held_),
      average_(average_of(options, towers_.variables(), held_)),
      scale_(config.reproducibility.precision == ComputeType::kFloat16),
      host_update_(towers_.variables(), updater_, rules_of(options, scale_), average()) {
  // The processors have the updates alone.
  const bool are_threads_given = config.reproducibility.threads_per_replica > 0;
  if (plan.towers.on_gpus() && towers_.slots().primary().is_cpu() && !are_threads_given) {
    set_cpu_threads(update_threads(towers_.variables().flat().numel()));
  }
  if (is_fresh && (options.warm_start || !options.first_values.empty())) {
    warm_start_variables(options);
  }
}

std::vector<NamedTensor> TrainingState::variables() const {
  auto tensors = towers_.variables().tensors();
  const auto append = [&tensors](std::vector<NamedTensor> more) {
    tensors.insert(tensors.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  };
  append(updater_.tensors());
  if (average_) append(average_->tensors());
  return tensors;
}

// --------------------------------------------------------------------------------- parts

void TrainingState::hold(const FlatRange& range) {
  held_ = range;
  updater_.hold(range);
  if (average_) average_->hold(range);
  log_memory();
}

std::vector<TensorPart> TrainingState::held() const {
  std::vector<TensorPart> parts = updater_.parts();
  if (average_) std::ranges::move(average_->parts(), std::back_inserter(parts));
  return parts;
}

EncodedTensors TrainingState::encoded_held() const {
  std::vector<TensorPart> parts = value_parts(towers_.variables(), held_.value());
  std::ranges::move(held(), std::back_inserter(parts));
  return encode_parts(parts, layouts_);
}

// Before the first step, and whenever it changes.
void TrainingState::log_memory() const {
  const auto bytes_of = [](const auto& tensors) {
    std::size_t bytes = 0;
    for (const auto& one : tensors) {
      if constexpr (requires { one.values; }) {
        bytes += one.values.nbytes();
      } else {
        bytes += one.tensor.nbytes();
      }
    }
    return bytes;
  };
  const Variables& variables = towers_.variables();
  const std::size_t averages =
      average_ ? bytes_of(average_->tensors()) + bytes_of(average_->parts()) : 0;
  const std::int64_t elements = held_->last - held_->first;
  const std::size_t whole = variables.flat().nbytes();
  const std::size_t divided = static_cast<std::size_t>(elements) * sizeof(float);
  std::string gradients = fmt::format("{}", whole);
  if (divides_gradients_ && towers_.options().releases_gradients) {
    gradients = fmt::format("{}, {} from a backward until they are sent", divided, whole);
  } else if (divides_gradients_) {
    gradients = fmt::format("{}", divided + whole);
  }
  log::info(
      "this task updates {} of {} elements of dense variables: bytes of values={} slots={} "
      "averages={} gradients={}",
      elements, variables.flat().numel(), bytes_of(variables.tensors()),
      bytes_of(updater_.tensors()) + bytes_of(updater_.parts()), averages, gradients);
}

// --------------------------------------------------------------------------------- checkpoints

std::vector<NamedTensor> TrainingState::checkpoint_tensors(std::int64_t step) const {
  auto tensors = variables();
  for (auto& named : tensors) {
    const Variable* variable = towers_.variables().find(named.name);
    if (variable != nullptr && !variable->spec.trainable) named.tensor = named.tensor.clone();
  }
  tensors.push_back({"global_step", at::full({}, step, at::kLong)});
  return tensors;
}

std::map<std::string, double> TrainingState::learning_rates(std::int64_t step) const {
  std::map<std::string, double> rates;
  for (const auto& rate : updater_.learning_rates(step)) {
    rates.emplace(rate.prefix, rate.learning_rate);
  }
  return rates;
}

void TrainingState::warm_start_variables(const EstimatorOptions& options) {
  std::vector<WarmStartTarget> targets;
  for (const auto& named : variables()) {
    const Variable* variable = towers_.variables().find(named.name);
    targets.push_back(
        {named, layouts_.of(named.name), variable != nullptr && variable->spec.trainable});
  }
  for (const WarmStartSettings& settings : options.first_values) warm_start(targets, settings);
  if (options.warm_start) warm_start(targets, *options.warm_start);
  towers_.commit();
  // Averages begin with the values that the variables begin with.
  if (options.moving_average) average_.emplace(towers_.variables(), *options.moving_average, held_);
}

std::int64_t TrainingState::restore(const ResumePoint& from) {
  log::info("Restoring parameters from {}", from.checkpoint.bundle.prefix().string());
  auto targets = variables();
  const at::Tensor saved_global_step = at::zeros({}, at::kLong);
  targets.push_back({"global_step", saved_global_step});
  restore_from(from.checkpoint.bundle, targets, layouts_);
  towers_.commit();
  if (from.state) scale_.restore(from.state->loss_scale, from.state->loss_scale_steps);
  return saved_global_step.item<std::int64_t>();
}

}  // namespace muster
