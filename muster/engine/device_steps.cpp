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
#include "muster/model/head.h"
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

// Captured work knows where its input lies and what shape it has.
bool can_be_captured(const Batches& batches) {
  return std::ranges::all_of(batches, [](const std::optional<Batch>& batch) {
    return batch && can_be_captured(batch->features) && can_be_captured(batch->labels);
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
        captured(device) {
    for (std::int64_t r = 0; r < replicas; ++r) feeds.emplace_back(device);
    captures = config.devices.capture_steps && can_capture();
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
      if (!batches[r]) continue;
      // On the device nobody looks at the labels' values.
      if (options.head != nullptr) options.head->check_labels(batches[r]->labels);
      placed[r] = feeds[r].put(*batches[r]);
    }
    return placed;
  }

  // All that the device does in a step. What changes from step to step is read from `words` where
  // it is captured.
  PartialSums work(Batches& batches, std::int64_t step, bool capturing) {
    CapturedInput known{.seeded = capturing};
    if (capturing) {
      known.keys =
          reinterpret_cast<const std::uint64_t*>(words.tensor().data_ptr<std::int64_t>()) + 1;
    }
    PartialSums result = towers.run(batches, {0, replicas}, step, /*loss_scale=*/1.0, known);
    Gradients mean = take_mean(result);
    update.apply(mean, result.losses, step);
    towers.commit();
    return result;
  }

  // False, for good, when the step is not one to be captured.
  bool capture(const Batches& batches, std::int64_t step) {
    Batches input;
    for (const auto& batch : batches) {
      input.push_back(
          Batch{.features = clone_of(batch->features), .labels = clone_of(batch->labels)});
    }
    const auto obstacle =
        captured.capture([&] { captured_result = work(input, step, /*capturing=*/true); });
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
      copy_into(batches[r]->features, captured_input[r]->features);
      copy_into(batches[r]->labels, captured_input[r]->labels);
    }
    captured.replay();
    return captured_result;
  }

  PartialSums make(Batches& batches, std::int64_t step) {
    if (captures && can_be_captured(batches)) {
      std::unique_lock<std::mutex> turn;
      if (towers.draws_from_libtorch()) turn = towers.seed_generators(step, 0);
      if (!captured_input.empty() && same_shape(batches, captured_input)) return replay(batches);
      const bool ready = captured_input.empty() && warm_up_steps >= kWarmUpSteps;
      if (ready && capture(batches, step)) return replay(batches);
    }
    ++warm_up_steps;
    return work(batches, step, /*capturing=*/false);
  }
};

bool DeviceSteps::can_make(const EstimatorOptions& options, const RunConfig& config,
                           const Towers& towers) {
  const auto& devices = towers.options().devices;
  // The share of a batch in the averages of batch norm is a constant of a captured step.
  if (options.zero_debias_batch_norm) return false;
  return towers.home().is_cuda() && config.reproducibility.precision != ComputeType::kFloat16 &&
         !towers.options().shared &&
         DeviceUpdate::can_make(options.update_rules(), towers.variables()) &&
         std::ranges::all_of(devices, [&](c10::Device device) { return device == towers.home(); });
}

DeviceSteps::DeviceSteps(const EstimatorOptions& options, const RunConfig& config, Towers& towers,
                         Updater& updater, MovingAverage* average)
    : impl_(std::make_unique<Impl>(options, config, towers, updater, average)) {}
DeviceSteps::~DeviceSteps() = default;

PartialSums DeviceSteps::make(std::span<std::optional<Batch>> batches, std::int64_t step) {
  impl_->write_words(step);
  Batches placed = impl_->place(batches);
  PartialSums result = impl_->make(placed, step);
  for (std::size_t r = 0; r < placed.size(); ++r) {
    if (placed[r]) impl_->feeds[r].used();
  }
  return result;
}

std::optional<std::int64_t> DeviceSteps::first_bad_step() const {
  const BlockingRegion region([] { return "the GPU: the steps that it was given"; });
  return impl_->update.first_bad_step();
}

double DeviceSteps::decay_loss() const { return impl_->update.decay_loss(); }

}  // namespace muster
