#include "muster/nn/model/model.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/nn/model/head.h"

namespace muster {
namespace {

class FunctionModel : public Model {
 public:
  FunctionModel(std::shared_ptr<torch::nn::Module> module,
                std::function<torch::Tensor(const Features&)> forward, const std::string& name)
      : forward_(std::move(forward)) {
    if (module) register_module(name, std::move(module));
  }
  torch::Tensor forward(const Features& features) override { return forward_(features); }

 private:
  std::function<torch::Tensor(const Features&)> forward_;
};

}  // namespace

EstimatorSpec Model::call(const Batch& batch, Mode mode, const Head* head) {
  if (head == nullptr) {
    throw FailedPrecondition(
        "this model has no head to turn logits into a loss: give the estimator one, such as "
        "multi_class_head(10), or override Model::call");
  }
  const auto logits = forward(batch.features);
  const auto regularization = mode == Mode::kPredict ? torch::Tensor() : regularization_loss();
  return checked(head->spec(batch, mode, logits, regularization));
}

std::shared_ptr<Model> model_from(std::shared_ptr<torch::nn::Module> module,
                                  std::function<torch::Tensor(const Features&)> forward,
                                  const std::string& name) {
  if (!forward) throw InvalidArgument("model_from needs a function that makes logits");
  return std::make_shared<FunctionModel>(std::move(module), std::move(forward), name);
}

}  // namespace muster
