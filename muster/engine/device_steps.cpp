#include "muster/engine/device_steps.h"

#include <torch/types.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/device/gpu.h"
#include "muster/engine/kept_values.h"
#include "muster/model/head.h"
#include "muster/model/module_variables.h"
#include "muster/model/random_scope.h"
#include "muster/optim/update.h"

namespace muster {
namespace {

/// Libraries choose kernels and take memory in the first steps, which cannot be captured.
constexpr std::int64_t kWarmUpSteps = 3;

using Batches = std::vector<std::optional<Batch>>;

bool can_be_captured(const Features& features) {
  return std::ranges::all_of(features, [](const Features::Column& column) {
    return std::holds_alternative<at::Tensor>(column.second);
  });
}

// Captured work knows where its input lies and what shape it has. Those of others are not here.
bool can_be_captured(const Batches& batches) {
  return std::ranges::all_of(batches, [](const std::optional<Batch>& batch) {
    return !batch || (can_be_captured(batch->features) && can_be_captured(batch->labels));
  });
}

bool same_shape(const Features& left, const Features& right) {
  return std::ranges::equal(
      left, right, [](const Features::Column& one, const Features::Column& other) {
        const auto& a = std::get<at::Tensor>(one.second);
        const auto& b = std::get<at::Tensor>(other.second);
        return one.first == other.first && a.sizes() == b.sizes() && a.strides() == b.strides() &&
               a.scalar_type() == b.scalar_type();
      });
}

bool same_shape(const Batches& left, const Batches& right) {
  return std::ranges::equal(left, right, [](const auto& one, const auto& other) {
    if (!one || !other) return one.has_value() == other.has_value();
    return same_shape(one->features, other->features) && same_shape(one->labels, other->labels);
  });
}

Features clone_of(const Features& features) {
  Features clone;
  for (const auto& [name, value] : features) clone.add(name, std::get<at::Tensor>(value).clone());
  return clone;
}

void copy_into(const Features& from, const Features& to) {
  for (const auto& [name, value] : from) to.tensor(name).copy_(std::get<at::Tensor>(value));
}

}  // namespace

struct DeviceSteps::Impl {
  const EstimatorOptions& options;
  Towers& towers;
  Updater& updater;
  std::int64_t replicas;
  c10::Device device;
  /// What every step writes: its number, a key for each replica, the optimizers' constants.
  DeviceWords words;
  std::vector<Feed> feeds{};
  DeviceUpdate update;
  /// Those of this process.
  ReplicaRange mine;
  /// Where a step can be undone.
  std::optional<KeptValues> kept{};
  bool is_open = false;

  const bool may_capture;
  bool captures = false;
  std::int64_t warm_up_steps = 0;
  CapturedWork captured;
  /// The batches that captured work reads; empty until something is captured.
  Batches captured_input{};
  PartialSums captured_result{};

  Impl(const EstimatorOptions& estimator_options, const RunConfig& config, Towers& run,
       Updater& run_updater, MovingAverage* run_average)
      : options(estimator_options),
        towers(run),
        updater(run_updater),
        replicas(run.options().replicas),
        device(run.home()),
        words(device, static_cast<std::size_t>(1 + replicas) + updater.constants_size()),
        update(towers.variables(), updater, options.update_rules(), run_average,
               words.tensor().narrow(0, 0, 1),
               words.tensor().narrow(0, 1 + replicas,
                                     static_cast<std::int64_t>(updater.constants_size()))),
        mine{0, replicas},
        may_capture(config.devices.capture_steps && device.is_cuda()),
        captured(device) {
    for (std::int64_t r = 0; r < replicas; ++r) feeds.emplace_back(device);
    if (towers.options().shared) kept.emplace(all_values(run_average));
    captures = may_capture && can_capture();
  }

  std::vector<at::Tensor> all_values(const MovingAverage* average) const {
    std::vector<at::Tensor> values{update.state()};
    const auto add = [&values](const std::vector<NamedTensor>& more) {
      for (const NamedTensor& named : more) values.push_back(named.tensor);
    };
    add(towers.variables().tensors());
    add(updater.tensors());
    if (average != nullptr) add(average->tensors());
    return values;
  }

  bool can_capture() const {
    std::string obstacle;
    if (replicas > 1 && towers.draws_from_libtorch()) {
      obstacle = "several replicas draw from libtorch's one generator of the GPU";
    } else if (options.moving_average && options.moving_average->ramp) {
      obstacle = "the moving average has another decay every step";
    }
    if (!obstacle.empty()) log::info("steps are not captured: {}", obstacle);
    return obstacle.empty();
  }

  void write_words(std::int64_t step) {
    const std::span<std::int64_t> next = words.next();
    next[0] = step;
    for (std::int64_t r = 0; r < replicas; ++r) {
      next[static_cast<std::size_t>(1 + r)] =
          static_cast<std::int64_t>(RandomScope::key_of(towers.options().seed, step, r));
    }
    updater.write_constants(step, next.subspan(static_cast<std::size_t>(1 + replicas)));
    words.send();
  }

  Batches place(std::span<std::optional<Batch>> batches) {
    Batches placed(batches.size());
    for (std::size_t r = 0; r < batches.size(); ++r) {
      if (!batches[r] || !mine.contains(static_cast<std::int64_t>(r))) continue;
      // On the device nobody looks at the labels' values.
      if (options.head != nullptr) options.head->check_labels(batches[r]->labels);
      placed[r] = feeds[r].put(*batches[r]);
    }
    return placed;
  }

  void begin(ReplicaRange now) {
    mine = now;
    // Captured sums are those with tasks that may be gone.
    captured.drop();
    captured_input.clear();
    captured_result = {};
    warm_up_steps = 0;
    captures = may_capture && can_capture();
  }

  // All that the device does in a step. What changes from step to step is read from `words` where
  // it is captured.
  PartialSums work(Batches& batches, std::int64_t step, DeviceSums* sums, bool capturing) {
    if (kept) kept->keep_on_device();
    CapturedInput known{.seeded = capturing};
    if (capturing) {
      known.keys =
          reinterpret_cast<const std::uint64_t*>(words.tensor().data_ptr<std::int64_t>()) + 1;
    }
    PartialSums result = towers.run(batches, mine, step, /*loss_scale=*/1.0, known);
    if (sums != nullptr) sums->add_up(result, towers.buffers());
    Gradients mean = take_mean(result);
    update.apply(mean, result.losses, step);
    towers.commit();
    return result;
  }

  // False, for good, when the step is not one to be captured.
  bool capture(const Batches& batches, std::int64_t step, DeviceSums* sums) {
    Batches input(batches.size());
    for (std::size_t r = 0; r < batches.size(); ++r) {
      if (!batches[r]) continue;
      input[r] =
          Batch{.features = clone_of(batches[r]->features), .labels = clone_of(batches[r]->labels)};
    }
    const auto obstacle =
        captured.capture([&] { captured_result = work(input, step, sums, /*capturing=*/true); });
    if (obstacle) {
      captures = false;
      captured_result = {};
      log::warning("steps are not captured, and train slower: {}", *obstacle);
      return false;
    }
    captured_input = std::move(input);
    log::info("step {} is captured as a CUDA graph, and replayed from now on", step + 1);
    return true;
  }

  PartialSums replay(const Batches& batches) {
    const torch::NoGradGuard no_grad;
    for (std::size_t r = 0; r < batches.size(); ++r) {
      if (!batches[r]) continue;
      copy_into(batches[r]->features, captured_input[r]->features);
      copy_into(batches[r]->labels, captured_input[r]->labels);
    }
    captured.replay();
    return captured_result;
  }

  bool has_own(const Batches& batches) const {
    for (std::int64_t r = mine.first; r < mine.last; ++r) {
      if (!batches[static_cast<std::size_t>(r)]) return false;
    }
    return true;
  }

  PartialSums make(Batches& batches, std::int64_t step, DeviceSums* sums, bool has_all) {
    if (captures && has_all && has_own(batches) && can_be_captured(batches)) {
      std::unique_lock<std::mutex> turn;
      if (towers.draws_from_libtorch()) turn = towers.seed_generators(step, 0);
      if (!captured_input.empty() && same_shape(batches, captured_input)) return replay(batches);
      const bool ready = captured_input.empty() && warm_up_steps >= kWarmUpSteps;
      if (ready && capture(batches, step, sums)) return replay(batches);
    }
    ++warm_up_steps;
    return work(batches, step, sums, /*capturing=*/false);
  }
};

std::string DeviceSteps::obstacle(const EstimatorOptions& options, const RunConfig& config,
                                  const TowerOptions& towers, const Model& model) {
  if (towers.variable_strategy != VariableStrategy::kDevices) {
    return "RunConfig::devices.variable_strategy keeps variables on the CPU";
  }
  // The share of a batch in the averages of batch norm is a constant of a captured step.
  if (options.zero_debias_batch_norm) return "zero_debias_batch_norm has another share every step";
  if (config.reproducibility.precision == ComputeType::kFloat16) {
    return "the scale of float16 is decided every step";
  }
  if (options.update_rules().checks_gradients) return "nan_policy looks at every step";
  if (std::ranges::any_of(variables_of(model), &ModuleVariable::sparse)) {
    return "the model has gradients by rows";
  }
  const c10::Device home = towers.devices[0];
  if (!std::ranges::all_of(towers.devices, [&](c10::Device one) { return one == home; })) {
    return "towers are on several devices";
  }
  return {};
}

DeviceSteps::DeviceSteps(const EstimatorOptions& options, const RunConfig& config, Towers& towers,
                         Updater& updater, MovingAverage* average)
    : impl_(std::make_unique<Impl>(options, config, towers, updater, average)) {}
DeviceSteps::~DeviceSteps() = default;

void DeviceSteps::begin(ReplicaRange mine) { impl_->begin(mine); }

PartialSums DeviceSteps::make(std::span<std::optional<Batch>> batches, std::int64_t step,
                              DeviceSums* sums, bool has_all) {
  if (impl_->kept) impl_->kept->keep_on_host();
  impl_->is_open = true;
  impl_->write_words(step);
  Batches placed = impl_->place(batches);
  PartialSums result = impl_->make(placed, step, sums, has_all);
  for (std::size_t r = 0; r < placed.size(); ++r) {
    if (placed[r]) impl_->feeds[r].used();
  }
  return result;
}

void DeviceSteps::keep() { impl_->is_open = false; }

void DeviceSteps::undo() {
  if (!impl_->is_open || !impl_->kept) return;
  impl_->kept->restore();
  impl_->towers.commit();
  impl_->is_open = false;
}

std::optional<std::int64_t> DeviceSteps::first_bad_step() const {
  const BlockingRegion region([] { return "the GPU: the steps that it was given"; });
  return impl_->update.first_bad_step();
}

double DeviceSteps::decay_loss() const { return impl_->update.decay_loss(); }

}  // namespace muster
