#include "muster/serving/executable/run_signature.h"

#include <utility>

namespace muster::serving {
namespace {

// Strings are moved: copies would cost more than reading them did.
executor::Value take_value(graph::TensorValue tensor) {
  if (tensor.dtype != graph::DataType::kString) return executor::to_value(tensor);
  tensor.check();
  return executor::StringTensor(std::move(tensor.strings), std::move(tensor.shape));
}

}  // namespace

serving::Tensors run_signature(const executor::ExecutableModel& model, std::string_view signature,
                               serving::Tensors inputs) {
  executor::Values values;
  for (auto& [name, tensor] : inputs) values.emplace(name, take_value(std::move(tensor)));
  serving::Tensors outputs;
  for (const auto& [name, value] : model.run(signature, values)) {
    outputs.emplace(name, executor::to_tensor_value(value));
  }
  return outputs;
}

}  // namespace muster::serving
