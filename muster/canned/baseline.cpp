#include "muster/canned/baseline.h"

#include <torch/types.h>

#include <utility>

#include "muster/canned/canned_parts_internal.h"
#include "muster/model/model.h"

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

template <typename Options>
Estimator baseline_estimator(Options options, HeadPtr head, RunConfig config) {
  const std::int64_t units = head->logits_dimension();
  return Estimator({.model = [units] { return std::make_shared<BaselineModel>(units); },
                    .head = std::move(head),
                    .optimizer = {{"", options.optimizer.resolve("Ftrl", kBaselineLearningRate),
                                   internal::outer_slot_scopes()}},
                    .warm_start = std::move(options.warm_start)},
                   std::move(config));
}

}  // namespace

Estimator baseline_classifier(BaselineClassifierOptions options, RunConfig config) {
  auto head = internal::classification_head(options.n_classes,
                                            {.weight_column = options.weight_column,
                                             .loss_reduction = options.loss_reduction,
                                             .label_vocabulary = options.label_vocabulary});
  return baseline_estimator(std::move(options), std::move(head), std::move(config));
}

Estimator baseline_regressor(BaselineRegressorOptions options, RunConfig config) {
  auto head = regression_head(options.label_dimension, {.weight_column = options.weight_column,
                                                        .loss_reduction = options.loss_reduction});
  return baseline_estimator(std::move(options), std::move(head), std::move(config));
}

}  // namespace muster
