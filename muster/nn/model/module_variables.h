#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/torch_fwd.h"

namespace muster {

/// Layout of a variable's values in a checkpoint, compared with the module's tensor.
enum class VariableLayout {
  kAsIs,
  /// libtorch's Linear has [out, in], TensorFlow's dense kernel [in, out].
  kTransposed,
  /// libtorch's convolutions have [out, in, ...space], TensorFlow's [...space, in, out].
  kConvolution,
};

/// The tensor as a checkpoint holds it, and back; both give contiguous tensors.
at::Tensor to_checkpoint_layout(const at::Tensor& tensor, VariableLayout layout);
at::Tensor from_checkpoint_layout(const at::Tensor& tensor, VariableLayout layout);
/// The shape that to_checkpoint_layout() gives.
std::vector<std::int64_t> checkpoint_shape(at::IntArrayRef sizes, VariableLayout layout);

/// A key that register_parameter() takes for a variable that is to have this name, beginning at its
/// module, in checkpoints: libtorch refuses dots, so they become "%2E".
std::string parameter_key(std::string_view name);

/// A parameter or buffer of a module under its name in checkpoints.
struct ModuleVariable {
  std::string name{};
  /// libtorch's name for it: "conv1.weight".
  std::string key{};
  at::Tensor tensor{};
  /// A parameter that wants a gradient; else a buffer or a frozen parameter.
  bool trainable = true;
  /// Its gradient is rows of a table, not the whole table: an Embedding made with sparse(true), or
  /// one of a module's SparseTables.
  bool sparse = false;
  VariableLayout layout = VariableLayout::kAsIs;
};

/// All variables of a module, parameters first, in the order of registration. A name is the
/// module's path with '/' for '.', and TensorFlow's word for the variable: Linear and convolutions
/// have `kernel` and `bias`, normalisations `gamma`, `beta`, `moving_mean`, `moving_variance`;
/// others have the name that parameter_key() was given, which mostly is libtorch's word. Throws
/// InvalidArgument when two get the same name, naming it.
std::vector<ModuleVariable> variables_of(const torch::nn::Module& root);

}  // namespace muster
