#include "muster/train/engine/tower.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "muster/base/log.h"
#include "muster/nn/kernels/libtorch_kernels.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/model/gradient_listener.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/random_scope.h"
#include "muster/nn/model/recompute.h"
#include "muster/train/compiler/recorder.h"
#include "muster/train/engine/seeded_model.h"

namespace muster {
namespace {

// The thread that brought it there has checked its labels.
bool is_on(const Batch& batch, c10::Device device) {
  const Features& columns = batch.features.empty() ? batch.labels : batch.features;
  return std::ranges::any_of(columns, [&](const Features::Column& column) {
    const auto* tensor = std::get_if<at::Tensor>(&column.second);
    return tensor != nullptr && tensor->device() == device;
  });
}

at::ScalarType autocast_type(ComputeType precision) {
  return precision == ComputeType::kFloat16 ? at::kHalf : at::kBFloat16;
}

std::shared_ptr<Model> ready_to_train(std::shared_ptr<Model> model, c10::Device device) {
  if (!device.is_cpu()) model->to(device);
  model->train();
  return model;
}

}  // namespace

Tower::Tower(std::shared_ptr<Model> model, const Variables& variables, const TowerSlot& slot,
             const Head* head, const TowerOptions& options)
    : options_(options),
      head_(head),
      slot_(slot),
      flat_size_(variables.flat().numel()),
      model_(ready_to_train(std::move(model), slot.device)),
      attached_(variables.attach(model_)),
      buffers_(model_->buffers()),
      norms_(*model_) {
  if (options.releases_gradients) attached_.release_gradients();
  if (!options.recompute.empty()) {
    const std::size_t modules = recompute_modules(*model_, options.recompute);
    if (slot.says)
      log::info("{} modules compute their activations again: recompute=\"{}\"", modules,
                options.recompute);
  }
  if (slot.device.is_cuda()) feed_.emplace(slot.device);
  if (slot.device.is_cuda() && !slot.is_away && options.shared) {
    buckets_ = std::make_unique<GradientBuckets>(variables, attached_, slot.device);
  }
  if (slot.is_away) packed_.emplace(buffers_, slot.device, slot.primary.is_cuda());
  if (options.compile == CompileMode::kOff) return;
  const std::string obstacle = CompiledTower::obstacle(options, *model_);
  if (obstacle.empty()) {
    compiled_.emplace(CompiledTower::Options{.says = slot.says, .report = options.compile_report},
                      outside_memory());
  } else if (slot.says) {
    log::warning("training steps are not compiled: {}", obstacle);
  }
}

// Memory that a step finds and leaves.
std::vector<at::Tensor> Tower::outside_memory() const {
  std::vector<at::Tensor> memory = attached_.dense_parameters();
  memory.push_back(attached_.gradients().flat);
  memory.insert(memory.end(), buffers_.begin(), buffers_.end());
  return memory;
}

ReplicaResult Tower::run(std::int64_t replica, const Batch& batch, const ReplicaStep& step) {
  if (options_.zero_debias_batch_norm) norms_.debias(step.number + 1);
  const bool in_buckets = buckets_ != nullptr && !step.copies_gradients;
  const GradientScope listener(in_buckets ? buckets_.get() : nullptr);
  if (in_buckets) buckets_->begin();
  const kernels::KernelScope scope(options_.own_cpu_kernels);
  const bool is_fed = feed_ && !is_on(batch, slot_.device);
  if (is_fed && head_ != nullptr) head_->check_labels(batch.labels);
  const Batch placed = is_fed ? feed_->put(batch) : batch;
  const bool compiles = compiled_ && compiled_->takes(placed) &&
                        // A step that reads its key on the host cannot be captured, and says so.
                        (!step.captured.capturing || compiled_->is_compiled(placed));
  Made made =
      compiles ? compiled(replica, placed, step) : forward_and_backward(replica, placed, step);
  if (is_fed) feed_->used();
  ReplicaResult result{.examples = batch.size(), .spec = std::move(made.spec)};
  result.loss = result.spec.loss.detach();
  if (in_buckets) {
    buckets_->end(made.were_moved);
    result.marks = buckets_->marks();
  }
  return result;
}

bool Tower::is_settled(const Batch& batch) const {
  return !compiled_ || !compiled_->takes(batch) || compiled_->is_settled(batch);
}

Tower::Made Tower::forward_and_backward(std::int64_t replica, const Batch& batch,
                                        const ReplicaStep& step) {
  std::optional<RandomScope> random;
  if (!step.captured.keys.empty()) {
    random.emplace(step.captured.keys[slot_.index] + replica);
  } else {
    random.emplace(options_.seed, step.number, replica);
  }
  attached_.zero();
  Made made;
  {
    const auto turn = seeded(replica, step);
    made.spec = forward(batch);
  }
  (step.loss_scale == 1.0 ? made.spec.loss : made.spec.loss * step.loss_scale).backward();
  if (options_.releases_gradients) attached_.place_gradients(at::empty({flat_size_}, at::kFloat));
  made.were_moved = attached_.collect();
  return made;
}

// Random numbers are operations by a key that is one of the step's inputs, or are drawn from
// libtorch's generators, in a turn that lasts until the step has drawn its last.
Tower::Made Tower::compiled(std::int64_t replica, const Batch& batch, const ReplicaStep& step) {
  // A step that is not recorded looks at no values.
  if (head_ != nullptr && slot_.device.is_cpu()) head_->check_labels(batch.labels);
  std::unique_lock<std::mutex> turn;
  const auto seed = [&] {
    if (turn.owns_lock()) turn.unlock();
    turn = seeded(replica, step);
  };
  const std::uint64_t key = RandomScope::key_of(options_.seed, step.number, replica);
  bool were_moved = true;
  const auto eager = [&](const Batch& given, const at::Tensor& key_tensor) {
    RandomScope random(key, key_tensor);
    attached_.zero();
    EstimatorSpec spec = forward(given);
    spec.loss.backward();
    were_moved = attached_.collect();
    if (random.is_read_by_host()) {
      compiler::note_obstacle("it draws random numbers on the host, by the key of its step");
    }
    return spec;
  };
  EstimatorSpec spec = compiled_->run(batch, key_of(replica, step), eager, seed);
  return {.spec = std::move(spec), .were_moved = were_moved || compiled_->last_was_compiled()};
}

at::Tensor Tower::key_of(std::int64_t replica, const ReplicaStep& step) const {
  const auto options = at::TensorOptions(at::kLong).device(slot_.device);
  if (step.captured.keys.empty()) {
    const std::uint64_t key = RandomScope::key_of(options_.seed, step.number, replica);
    return at::full({1}, static_cast<std::int64_t>(key), options);
  }
  // Every replay reads what is there then.
  const std::uint64_t* const key = step.captured.keys[slot_.index] + replica;
  return at::for_blob(const_cast<std::uint64_t*>(key), {1})
      .options(options)
      .target_device(slot_.device)
      .make_tensor();
}

// While the lock is held; none where the model does not draw from libtorch's generators, or the
// step is seeded already.
std::unique_lock<std::mutex> Tower::seeded(std::int64_t replica, const ReplicaStep& step) const {
  if (!model_->draws_from_libtorch() || step.captured.capturing) return {};
  return seed_generators(options_.seed, step.number, replica);
}

EstimatorSpec Tower::forward(const Batch& batch) const {
  const compat::AutocastScope autocast(options_.precision != ComputeType::kFloat32,
                                       slot_.device.type(), autocast_type(options_.precision));
  return checked(model_->call(batch, Mode::kTrain, head_));
}

}  // namespace muster
