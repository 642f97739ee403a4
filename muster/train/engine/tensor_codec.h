#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/tensor.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/optim/named_tensor.h"
#include "muster/nn/optim/tensor_part.h"

namespace muster {

/// How each variable stands in a checkpoint, by name; slots and averages follow their variable.
class CheckpointLayouts {
 public:
  explicit CheckpointLayouts(std::span<const ModuleVariable> variables);
  /// Layout of a variable or of a slot `<variable>/...`; kAsIs for anything else.
  VariableLayout of(const std::string& name) const;

 private:
  std::map<std::string, VariableLayout, std::less<>> by_name_;
};

/// Tensors as a checkpoint is written from: views of live values where they stand as they are, else
/// of copies.
struct EncodedTensors {
  std::vector<TensorView> views{};
  /// Keeps what the views see.
  std::vector<NamedTensor> holders{};
};
EncodedTensors encode(std::vector<NamedTensor> tensors, const CheckpointLayouts& layouts);
/// The same for parts, which become slices in a checkpoint; empty ones are skipped.
EncodedTensors encode_parts(std::span<const TensorPart> parts, const CheckpointLayouts& layouts);

/// A tensor of a checkpoint as libtorch's, in the layout of the module. Throws NotFound;
/// InvalidArgument for a type that libtorch lacks.
at::Tensor decode(const BundleReader& bundle, const std::string& name,
                  VariableLayout layout = VariableLayout::kAsIs);

/// Copies the checkpoint's values into live tensors. Nothing is changed unless all fit. Throws
/// NotFound naming what the checkpoint lacks, InvalidArgument naming the variable and both shapes.
void restore_from(const BundleReader& bundle, std::span<const NamedTensor> targets,
                  const CheckpointLayouts& layouts);

}  // namespace muster
