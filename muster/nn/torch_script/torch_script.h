#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/base/file_system.h"
#include "muster/nn/model/model_factory.h"

namespace muster {

struct TorchScriptOptions {
  /// Feature that an argument of forward takes, by the argument's name: {{"x", "image"}}. Another
  /// argument takes the feature of its own name. Where no argument has a feature by either, tensors
  /// are given in their order.
  std::map<std::string, std::string> inputs{};
  /// Output with the logits: the key of a dictionary, the name of a field of a NamedTuple, or a
  /// place in a tuple or list ("0"). Empty: the only one.
  std::string output{};
  /// Whether a dropout or batch norm that is the same in training and evaluation is accepted, as
  /// torch.jit.trace writes them.
  bool fixed_modes = false;
  /// Whether forward may draw random numbers, as dropout does. Replicas of a model that draws none
  /// run side by side.
  bool draws_random_numbers = true;
  /// Largest file that is read.
  std::uint64_t limit_bytes = std::uint64_t{4} << 30;
};

/// A factory for EstimatorOptions::model out of a file that torch.jit.save wrote: the graph is the
/// file's, and its parameters and buffers are the model's, under their names in Python. The file is
/// read once, here, and every model begins with its values. Operations run one by one, as in
/// Python without a compiler: fusers, whose results change from call to call, take no part.
///
/// A TorchScript file is code. Train those whose origin you trust.
///
/// Throws NotFound; DataLoss for a damaged file; Unimplemented for an operator that this libtorch
/// does not have; InvalidArgument for a module that cannot be trained (frozen, half precision,
/// without parameters, traced in one mode, with numbers that a checkpoint would not have), with
/// what to do.
ModelFactory torch_script_model(const Path& path, const TorchScriptOptions& options = {});

}  // namespace muster
