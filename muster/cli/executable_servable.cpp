#include "muster/cli/executable_servable.h"

#include <memory>
#include <utility>

namespace muster::cli {
namespace {

class ExecutableServable : public server::Servable {
 public:
  explicit ExecutableServable(executor::ExecutableModel model) : model_(std::move(model)) {}

  const server::Signatures& signatures() const override { return model_.signatures(); }

  server::Tensors run(std::string_view signature, const server::Tensors& inputs) const override {
    executor::Values values;
    for (const auto& [name, tensor] : inputs) values.emplace(name, executor::to_value(tensor));
    server::Tensors outputs;
    for (const auto& [name, value] : model_.run(signature, values)) {
      outputs.emplace(name, executor::to_tensor_value(value));
    }
    return outputs;
  }

 private:
  executor::ExecutableModel model_;
};

}  // namespace

server::LoadServable executable_loader(executor::LoadOptions options) {
  return [options](const Path& dir) -> std::shared_ptr<const server::Servable> {
    return std::make_shared<ExecutableServable>(executor::ExecutableModel::load(dir, options));
  };
}

}  // namespace muster::cli
