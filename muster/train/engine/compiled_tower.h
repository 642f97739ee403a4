#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/features/batch.h"
#include "muster/nn/model/estimator_spec.h"
#include "muster/nn/model/model.h"
#include "muster/train/compiler/compiled_step.h"
#include "muster/train/engine/tower_options.h"

namespace muster {

/// Forward and backward of a tower, compiled where they can be (train/compiler/compiled_step.h).
/// The step's inputs are the tensors of a batch and the key of its random numbers; its outputs are
/// the tensors of what the model returned. Parameters, gradients and buffers are memory outside of
/// it: when they are moved, all is compiled anew. What is not compiled runs in an OperationsScope
/// too, so that bits do not depend on which steps of a run were recorded.
class CompiledTower {
 public:
  struct Options {
    /// Whether it logs what is compiled and what is not.
    bool says = true;
    /// Where CompiledStep::explain() is written whenever it changes; empty: nowhere.
    Path report{};
  };

  /// Why no step of such towers is compiled, in words; empty where they may be.
  static std::string obstacle(const TowerOptions& options, const Model& model);

  /// `outside`: parameters, gradients and buffers.
  CompiledTower(Options options, std::vector<at::Tensor> outside);

  /// Whether all columns of a batch are tensors: others are given to the model by the tower itself.
  bool takes(const Batch& batch) const;

  /// All of a step, operation by operation; libtorch's generators are seeded.
  using Eager = std::function<EstimatorSpec(const Batch& batch, const at::Tensor& key)>;
  /// One step. `seed` seeds libtorch's generators.
  EstimatorSpec run(const Batch& batch, const at::Tensor& key, const Eager& eager,
                    const std::function<void()>& seed);

  /// Whether what the last run() gave is of the compiled step.
  bool last_was_compiled() const { return last_was_compiled_; }
  /// See CompiledStep.
  bool is_compiled(const Batch& batch) const;
  bool is_settled(const Batch& batch) const;
  std::string explain() const;

 private:
  using Tensors = std::vector<at::Tensor>;
  /// State that is valid for the memory it was compiled for, and for columns of these names.
  struct Compiled {
    compiler::CompiledStep step;
    /// Laid out as every one.
    at::Tensor key;
    std::vector<const void*> memory;
    std::vector<std::string> columns;
    /// By layout of inputs, what the model returned, without its tensors.
    std::vector<std::pair<std::vector<compiler::Geometry>, EstimatorSpec>> specs{};
  };

  Compiled& compiled_for(const Batch& batch, const Tensors& inputs);
  bool is_known(const Tensors& inputs) const;
  void write_report();

  const Options options_;
  const std::vector<at::Tensor> outside_;
  std::optional<Compiled> compiled_;
  std::size_t reported_ = 0;
  bool last_was_compiled_ = false;
  mutable bool said_no_tensors_ = false;
};

}  // namespace muster
