#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/nn/model/model.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/optim/variables.h"

namespace muster {

struct EstimatorOptions;
struct RunConfig;

/// Suffix that turns a variable's name into that of its moving average.
inline constexpr const char* kAverageSuffix = "/ExponentialMovingAverage";

/// A model in eval mode with the values of one checkpoint, or of a run of training: what evaluation
/// and prediction run. It is made once and loaded again when other values are asked for, so a
/// thousand evaluations take the memory of one.
class EvaluationModel {
 public:
  /// A model of a run, on its first device (on the CPU for a learner without gradients) and with
  /// its kernels. Throws InvalidArgument for a device that is not there.
  EvaluationModel(const EstimatorOptions& options, const RunConfig& config);
  EvaluationModel(const EstimatorOptions& options, std::uint64_t seed,
                  c10::Device device = c10::kCPU, bool own_cpu_kernels = true);

  /// Loads the checkpoint of this prefix, unless it is the one that is loaded. Moving averages take
  /// the place of the variables where the estimator keeps them. Returns its global step. Throws
  /// NotFound, DataLoss, or InvalidArgument naming the variable and both shapes.
  std::int64_t load(const Path& prefix);
  /// Copies these values, by name, averages as above. Throws NotFound, or InvalidArgument, naming
  /// the variable.
  void load(std::span<const NamedTensor> values, std::int64_t global_step);

  Model& model() { return *model_; }
  /// Calls the model on a batch, which may be on any device; predictions come back to the CPU.
  /// Throws what Model::call throws.
  EstimatorSpec call(const Batch& batch, Mode mode);
  /// Global step of the values that are loaded.
  std::int64_t global_step() const { return global_step_; }
  /// Where they are from; empty for those of a run.
  const Path& checkpoint() const { return loaded_; }
  /// The weight-decay term of the loss; 0 without one.
  double decay_loss() const { return decay_loss_; }
  /// Warns, once, when moving averages of batch norm are still made of the values they began with.
  void warn_of_unsettled_averages();

 private:
  EstimatorSpec call_model(const Batch& batch, Mode mode);
  void loaded_from(const Path& prefix, std::int64_t global_step);

  const EstimatorOptions& options_;
  c10::Device device_;
  bool own_cpu_kernels_;
  std::shared_ptr<Model> model_;
  std::vector<ModuleVariable> module_variables_;
  std::optional<Variables> variables_;
  /// Ties the model's parameters to variables_.
  std::optional<AttachedModule> attached_;
  Path loaded_;
  std::int64_t loaded_modified_ns_ = 0;
  std::int64_t global_step_ = 0;
  double decay_loss_ = 0;
  bool has_warned_ = false;
};

}  // namespace muster
