#include "muster/serving/executable/executable_servable.h"

#include <memory>
#include <utility>

#include "muster/serving/codec/model_files.h"
#include "muster/serving/executable/explain_rows.h"
#include "muster/serving/executable/run_signature.h"
#include "muster/serving/executable/torch_script_servable.h"

namespace muster::serving {
namespace {

class ExecutableServable : public serving::Servable {
 public:
  explicit ExecutableServable(executor::ExecutableModel model) : model_(std::move(model)) {}

  const serving::Signatures& signatures() const override { return model_.signatures(); }

  serving::Tensors run(std::string_view signature, const serving::Tensors& inputs) const override {
    if (auto answer = model_.run_in_arena(signature, inputs)) return std::move(*answer);
    return run_signature(model_, signature, inputs);
  }

  serving::Explanations explain(std::string_view signature, const serving::Tensors& inputs,
                                const executor::ExplainOptions& options,
                                const std::optional<serving::Tensors>& baseline) const override {
    return explain_rows(model_, signature, inputs, options, baseline);
  }

 private:
  executor::ExecutableModel model_;
};

}  // namespace

serving::LoadServable executable_loader(const executor::LoadOptions& options) {
  return [options](const Path& dir) -> std::shared_ptr<const serving::Servable> {
    if (const auto file = torch_script_in(dir)) {
      return load_torch_script(*file, {.device = options.device});
    }
    return std::make_shared<ExecutableServable>(executor::ExecutableModel::load(dir, options));
  };
}

}  // namespace muster::serving
