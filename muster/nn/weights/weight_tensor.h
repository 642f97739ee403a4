#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>

#include "muster/base/torch_fwd.h"
#include "muster/data/weights/weight.h"

namespace muster {

/// libtorch's type for elements of a file. Throws InvalidArgument, naming the tensor, for one that
/// libtorch lacks.
at::ScalarType scalar_type_of(const Weight& weight);

/// The values as a tensor of its own on the CPU, row-major.
at::Tensor tensor_of(const Weight& weight);

/// Turns tensors into weights, which keep their strides and what storages they share. Tensors on
/// other devices are copied to the CPU.
class WeightsOfTensors {
 public:
  /// Throws InvalidArgument, naming the tensor, for one that is not strided or of a type that files
  /// of weights lack.
  Weight weight_of(std::string name, const at::Tensor& tensor);

 private:
  std::map<const void*, std::shared_ptr<const WeightStorage>> storages_;
};

}  // namespace muster
