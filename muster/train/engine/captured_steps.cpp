#include "muster/train/engine/captured_steps.h"

#include <torch/types.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/log.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/model/random_scope.h"
#include "muster/train/engine/seeded_model.h"

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

struct CapturedSteps::Impl {
  Towers& towers;
  const DeviceSlots& slots;
  const Options options;
  const std::int64_t replicas;
  /// Words that every step writes: its number, a key for each replica, constants. By slot.
  std::deque<DeviceWords> words{};
  std::vector<Feed> feeds{};
  /// Those of this process.
  ReplicaRange mine;

  bool captures = false;
  std::int64_t warm_up_steps = 0;
  CapturedWork captured;
  /// The batches that captured work reads; empty until something is captured.
  Batches captured_input{};
  PartialSums captured_result{};

  Impl(Towers& run, Options given)
      : towers(run),
        slots(run.slots()),
        options(std::move(given)),
        replicas(run.options().replicas),
        mine{0, replicas},
        captured(options.device, devices()) {
    for (std::size_t slot = 0; slot < slots.count(); ++slot) {
      const BranchStream::Use on = slots.use(slot);
      words.emplace_back(device_of(slot), first_constant() + options.constants);
    }
    make_feeds();
    captures = can_capture();
  }

  // Where variables are in host memory, the loop's stream is not that of the primary.
  c10::Device device_of(std::size_t slot) const {
    return slot == 0 ? options.device : slots.device(slot);
  }

  std::vector<c10::Device> devices() const {
    std::vector<c10::Device> all;
    for (std::size_t slot = 0; slot < slots.count(); ++slot) all.push_back(device_of(slot));
    return all;
  }

  std::size_t slot_of(std::size_t replica) const {
    const auto number = static_cast<std::int64_t>(replica);
    return mine.contains(number) ? slots.slot_of(number, mine) : 0;
  }

  void make_feeds() {
    feeds.clear();
    for (std::size_t r = 0; r < static_cast<std::size_t>(replicas); ++r) {
      feeds.emplace_back(device_of(slot_of(r)));
    }
  }

  std::size_t first_constant() const { return static_cast<std::size_t>(1 + replicas); }

  bool can_capture() const {
    if (!options.may_capture || !options.device.is_cuda()) return false;
    std::string obstacle = options.obstacle;
    if (replicas > 1 && towers.draws_from_libtorch()) {
      obstacle = "several replicas draw from libtorch's one generator of the GPU";
    }
    if (!obstacle.empty()) log::info("steps are not captured: {}", obstacle);
    return obstacle.empty();
  }

  void write_words(std::int64_t step, const WriteConstants& write_constants) {
    for (std::size_t slot = 0; slot < words.size(); ++slot) {
      const BranchStream::Use on = slots.use(slot);
      const std::span<std::int64_t> next = words[slot].next();
      next[0] = step;
      for (std::int64_t r = 0; r < replicas; ++r) {
        next[static_cast<std::size_t>(1 + r)] =
            static_cast<std::int64_t>(RandomScope::key_of(towers.options().seed, step, r));
      }
      // Updates are made on the primary.
      if (write_constants && slot == 0) write_constants(next.subspan(first_constant()));
      words[slot].send();
    }
  }

  Batches place(std::span<std::optional<Batch>> batches) {
    Batches placed(batches.size());
    for (std::size_t r = 0; r < batches.size(); ++r) {
      if (!batches[r] || !mine.contains(static_cast<std::int64_t>(r))) continue;
      // Operations on the device do not look at the labels' values.
      if (options.head != nullptr) options.head->check_labels(batches[r]->labels);
      const BranchStream::Use on = slots.use(slot_of(r));
      placed[r] = feeds[r].put(*batches[r]);
    }
    return placed;
  }

  void mark_used(const Batches& placed) {
    for (std::size_t r = 0; r < placed.size(); ++r) {
      if (!placed[r]) continue;
      const BranchStream::Use on = slots.use(slot_of(r));
      feeds[r].used();
    }
  }

  void forget() {
    captured.drop();
    captured_input.clear();
    captured_result = {};
    warm_up_steps = 0;
  }

  // False, for good, when the step is not one to be captured.
  bool capture(const Batches& batches, std::int64_t step, const Work& work) {
    Batches input(batches.size());
    for (std::size_t r = 0; r < batches.size(); ++r) {
      if (!batches[r]) continue;
      const BranchStream::Use on = slots.use(slot_of(r));
      input[r] =
          Batch{.features = clone_of(batches[r]->features), .labels = clone_of(batches[r]->labels)};
    }
    // Values that change from step to step are read from `words`.
    std::vector<const std::uint64_t*> keys;
    for (const DeviceWords& of_slot : words) {
      const auto* first = of_slot.tensor().data_ptr<std::int64_t>();
      keys.push_back(reinterpret_cast<const std::uint64_t*>(first) + 1);
    }
    const CapturedInput known{.keys = keys, .capturing = true};
    // A graph has memory of its own, and that of the steps before it is not needed any more.
    release_cached_memory();
    const auto obstacle = captured.capture([&] { captured_result = work(input, known); });
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
      const BranchStream::Use on = slots.use(slot_of(r));
      copy_into(batches[r]->features, captured_input[r]->features);
      copy_into(batches[r]->labels, captured_input[r]->labels);
    }
    slots.join();
    captured.replay();
    return captured_result;
  }

  bool has_own(const Batches& batches) const {
    for (std::int64_t r = mine.first; r < mine.last; ++r) {
      if (!batches[static_cast<std::size_t>(r)]) return false;
    }
    return true;
  }

  PartialSums make(Batches& batches, std::int64_t step, bool has_all, const Work& work) {
    if (captures && has_all && has_own(batches) && can_be_captured(batches)) {
      std::unique_lock<std::mutex> turn;
      if (towers.draws_from_libtorch()) turn = seed_generators(towers.options().seed, step, 0);
      if (!captured_input.empty() && same_shape(batches, captured_input)) return replay(batches);
      const bool ready = captured_input.empty() && warm_up_steps >= kWarmUpSteps &&
                         towers.is_settled(batches, mine);
      if (ready && capture(batches, step, work)) return replay(batches);
    }
    ++warm_up_steps;
    return work(batches, {.in_turn = captures});
  }
};

std::string CapturedSteps::obstacle(const EstimatorOptions& options, const RunConfig& config,
                                    const TowerOptions& towers, const Model& model) {
  // The share of a batch in the averages of batch norm is a constant of a captured step.
  if (options.zero_debias_batch_norm) return "zero_debias_batch_norm has another share every step";
  if (config.reproducibility.precision == ComputeType::kFloat16) {
    return "the scale of float16 is decided every step";
  }
  if (std::ranges::any_of(variables_of(model), &ModuleVariable::sparse)) {
    return "the model has gradients by rows";
  }
  const auto is_first = [&](c10::Device one) { return one == towers.devices[0]; };
  const auto is_like_first = [&](c10::Device one) {
    return one.type() == towers.devices[0].type();
  };
  if (!std::ranges::all_of(towers.devices, is_like_first)) return "some towers are on the CPU";
  // The host waits for what each of them gives.
  if (towers.variable_strategy == VariableStrategy::kCpu &&
      !std::ranges::all_of(towers.devices, is_first)) {
    return "towers are on several GPUs, and variables on the CPU";
  }
  return {};
}

CapturedSteps::CapturedSteps(Towers& towers, Options options)
    : impl_(std::make_unique<Impl>(towers, std::move(options))) {}
CapturedSteps::~CapturedSteps() = default;

void CapturedSteps::begin(ReplicaRange mine) {
  impl_->mine = mine;
  // Replicas may run elsewhere now.
  if (impl_->slots.count() > 1) impl_->make_feeds();
  // Captured sums are those with tasks that may be gone.
  impl_->forget();
  impl_->captures = impl_->can_capture();
}

PartialSums CapturedSteps::make(std::span<std::optional<Batch>> batches, std::int64_t step,
                                bool has_all, const Work& work,
                                const WriteConstants& write_constants) {
  // Memory that the last step reads on other devices is written when it has ended.
  impl_->slots.fork();
  impl_->write_words(step, write_constants);
  Batches placed = impl_->place(batches);
  PartialSums result = impl_->make(placed, step, has_all, work);
  impl_->mark_used(placed);
  return result;
}

at::Tensor CapturedSteps::number() const { return impl_->words[0].tensor().narrow(0, 0, 1); }

at::Tensor CapturedSteps::constants() const {
  return impl_->words[0].tensor().narrow(0, static_cast<std::int64_t>(impl_->first_constant()),
                                         static_cast<std::int64_t>(impl_->options.constants));
}

}  // namespace muster
