#include "muster/train/estimator/evaluation_model.h"

#include <torch/types.h>

#include <functional>
#include <span>
#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/nn/device/devices.h"
#include "muster/nn/kernels/libtorch_kernels.h"
#include "muster/nn/model/head.h"
#include "muster/nn/optim/slot_count.h"
#include "muster/train/engine/batch_norms.h"
#include "muster/train/engine/seeded_model.h"
#include "muster/train/engine/tensor_codec.h"
#include "muster/train/engine/tower_options.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/learner.h"

namespace muster {
namespace {

constexpr const char* kGlobalStep = "global_step";

// Each trainable variable from its average where the checkpoint has one.
void use_averages(const BundleReader& bundle, const Variables& variables,
                  const CheckpointLayouts& layouts) {
  for (const auto& variable : variables.all()) {
    const std::string average = variable.spec.name + kAverageSuffix;
    if (!variable.spec.trainable || !bundle.contains(average)) continue;
    variable.value.copy_(decode(bundle, average, layouts.of(variable.spec.name)));
  }
}

// The trainable variables under the names of their averages.
std::vector<NamedTensor> averaged_variables(const Variables& variables) {
  std::vector<NamedTensor> tensors;
  for (const auto& variable : variables.all()) {
    if (variable.spec.trainable) {
      tensors.push_back({variable.spec.name + kAverageSuffix, variable.value});
    }
  }
  return tensors;
}

/// The value of a slot of this name.
using SlotValue = std::function<at::Tensor(const std::string& slot, const Variable& variable)>;

// Adds the offsets by which optimizers have their variables evaluated.
void use_evaluation_offsets(const OptimizersByPrefix& optimizers, const Variables& variables,
                            const SlotValue& value_of) {
  const torch::NoGradGuard no_grad;
  for (const auto& variable : variables.all()) {
    if (!variable.spec.trainable) continue;
    const auto offset = evaluation_offset(optimizers, variable.spec.name);
    if (!offset) continue;
    variable.value.add_(value_of(offset->slot, variable).to(variable.value.device()),
                        offset->factor);
  }
}

at::Tensor find_slot(std::span<const NamedTensor> values, const std::string& slot) {
  for (const NamedTensor& named : values) {
    if (named.name == slot) return named.tensor;
  }
  throw Unimplemented(
      "evaluations of this optimizer need the slot {}, of which other tasks have a part; evaluate "
      "checkpoints",
      slot);
}

c10::Device evaluation_device(const EstimatorOptions& options, const RunConfig& config) {
  if (options.learner) return c10::Device(c10::kCPU);
  const c10::Device device = tower_devices(config, options.model)[0];
  // As in training, which evaluates in a process of its own too.
  if (device.is_cuda()) choose_gpu_kernels(config.reproducibility.deterministic);
  return device;
}

}  // namespace

EvaluationModel::EvaluationModel(const EstimatorOptions& options, const RunConfig& config)
    : EvaluationModel(options, config.seed(), evaluation_device(options, config),
                      config.reproducibility.own_cpu_kernels) {}

EvaluationModel::EvaluationModel(const EstimatorOptions& options, std::uint64_t seed,
                                 c10::Device device, bool own_cpu_kernels)
    : options_(options),
      device_(device),
      own_cpu_kernels_(own_cpu_kernels),
      model_(make_seeded_model(options.model, seed)) {
  module_variables_ = variables_of(*model_);
  if (!device_.is_cpu()) model_->to(device_);
  variables_.emplace(Variables::adopt(*model_, adopt_options(module_variables_)));
  attached_.emplace(variables_->attach(model_));
  model_->eval();
}

// libtorch's own errors tell what did not fit, not in which batch.
EstimatorSpec EvaluationModel::call(const Batch& batch, Mode mode) {
  try {
    return call_model(batch, mode);
  } catch (const c10::Error& error) {
    throw Internal("a batch with {}: {}", describe(batch), error.what_without_backtrace());
  }
}

EstimatorSpec EvaluationModel::call_model(const Batch& batch, Mode mode) {
  const Head* head = options_.head.get();
  const kernels::KernelScope scope(own_cpu_kernels_);
  if (device_.is_cpu()) return checked(model_->call(batch, mode, head));
  // Operations on the device do not look at the labels' values.
  if (mode != Mode::kPredict && head != nullptr) head->check_labels(batch.labels);
  EstimatorSpec spec = checked(model_->call(batch.to(device_), mode, head));
  spec.predictions = spec.predictions.to(c10::kCPU);
  return spec;
}

std::int64_t EvaluationModel::load(const Path& prefix) {
  const auto status = file_system_for(prefix).status(Path(prefix.string() + ".index"));
  const std::int64_t modified = status ? status->modified_ns : 0;
  if (prefix == loaded_ && modified == loaded_modified_ns_) return global_step_;
  loaded_.clear();  // Until all new values are there, they are of no checkpoint.
  const torch::NoGradGuard no_grad;
  const OpenCheckpoint checkpoint = open_checkpoint(prefix);
  const CheckpointLayouts layouts(module_variables_);
  restore_from(checkpoint.bundle, variables_->tensors(), layouts);
  if (options_.learner) options_.learner->load(checkpoint.bundle, *model_);
  if (options_.moving_average) use_averages(checkpoint.bundle, *variables_, layouts);
  use_evaluation_offsets(options_.optimizer, *variables_,
                         [&](const std::string& slot, const Variable& variable) {
                           return decode(checkpoint.bundle, slot, layouts.of(variable.spec.name));
                         });
  loaded_from(prefix, decode(checkpoint.bundle, kGlobalStep).item<std::int64_t>());
  loaded_modified_ns_ = modified;
  return global_step_;
}

void EvaluationModel::load(std::span<const NamedTensor> values, std::int64_t global_step) {
  restore(variables_->tensors(), values);
  if (options_.moving_average) restore(averaged_variables(*variables_), values);
  use_evaluation_offsets(options_.optimizer, *variables_,
                         [&](const std::string& slot, const Variable& /*variable*/) {
                           return find_slot(values, slot);
                         });
  loaded_from({}, global_step);
}

void EvaluationModel::loaded_from(const Path& prefix, std::int64_t global_step) {
  const torch::NoGradGuard no_grad;
  loaded_ = prefix;
  global_step_ = global_step;
  decay_loss_ = options_.weight_decay.factor > 0
                    ? weight_decay_loss(*variables_, options_.weight_decay)
                    : 0.0;
}

void EvaluationModel::warn_of_unsettled_averages() {
  if (has_warned_ || options_.zero_debias_batch_norm) return;
  const auto values = BatchNorms(*model_).most_biased();
  if (!values || values->share < kSettledShare) return;
  has_warned_ = true;
  log::warning(
      "the moving averages of batch norm ({} and others) have seen {} batches and still hold "
      "{:.0f} "
      "% of the values they began with, so this evaluation can be far worse than the training "
      "loss; with a decay of {:g} it passes after {} batches, or set zero_debias_batch_norm",
      values->name, values->updates, 100 * values->share, values->decay,
      updates_to_settle(values->decay));
}

}  // namespace muster
