#include "muster/train/canned/canned.h"

#include <torch/types.h>

#include <utility>

#include "muster/nn/model/model.h"
#include "muster/train/canned/canned_parts_internal.h"

namespace muster {
namespace {

constexpr double kBaselineLearningRate = 0.3;

struct BaselineModel : Model {
  explicit BaselineModel(std::int64_t units) {
    auto scope = register_module("baseline", std::make_shared<torch::nn::Module>());
    bias = scope->register_parameter("bias", torch::zeros({units}));
  }
  torch::Tensor forward(const Features& features) override {
    return bias.unsqueeze(0).expand({features.batch_size(), -1});
  }
  bool draws_from_libtorch() const override { return false; }
  torch::Tensor bias;
};

Estimator baseline_estimator(BaselineOptions options, HeadPtr head, RunConfig config) {
  const std::int64_t units = head->logits_dimension();
  return Estimator({.model = [units] { return std::make_shared<BaselineModel>(units); },
                    .head = std::move(head),
                    .optimizer = {{"", options.optimizer.resolve("Ftrl", kBaselineLearningRate),
                                   internal::outer_slot_scopes()}},
                    .warm_start = std::move(options.warm_start)},
                   std::move(config));
}

}  // namespace

Estimator baseline_classifier(BaselineOptions options, RunConfig config) {
  auto head = internal::classifier_head(internal::labels_of(options));
  return baseline_estimator(std::move(options), std::move(head), std::move(config));
}

Estimator baseline_regressor(BaselineOptions options, RunConfig config) {
  auto head = internal::regressor_head(internal::labels_of(options));
  return baseline_estimator(std::move(options), std::move(head), std::move(config));
}

}  // namespace muster
