#include "muster/cli/executable_servable.h"

#include <memory>
#include <utility>

#include "muster/cli/run_signature.h"

namespace muster::cli {
namespace {

class ExecutableServable : public server::Servable {
 public:
  explicit ExecutableServable(executor::ExecutableModel model) : model_(std::move(model)) {}

  const server::Signatures& signatures() const override { return model_.signatures(); }

  server::Tensors run(std::string_view signature, const server::Tensors& inputs) const override {
    if (auto answer = model_.run_in_arena(signature, inputs)) return std::move(*answer);
    return run_signature(model_, signature, inputs);
  }

 private:
  executor::ExecutableModel model_;
};

}  // namespace

server::LoadServable executable_loader(const executor::LoadOptions& options) {
  return [options](const Path& dir) -> std::shared_ptr<const server::Servable> {
    return std::make_shared<ExecutableServable>(executor::ExecutableModel::load(dir, options));
  };
}

}  // namespace muster::cli
