#include "muster/cli/run_signature.h"

namespace muster::cli {

serving::Tensors run_signature(const executor::ExecutableModel& model, const std::string& signature,
                               const serving::Tensors& inputs) {
  executor::Values values;
  for (const auto& [name, tensor] : inputs) values.emplace(name, executor::to_value(tensor));
  serving::Tensors outputs;
  for (const auto& [name, value] : model.run(signature, values)) {
    outputs.emplace(name, executor::to_tensor_value(value));
  }
  return outputs;
}

}  // namespace muster::cli
