#include "model.h"

#include <torch/types.h>

#include "muster/nn/api.h"

namespace {

constexpr std::int64_t kClasses = 3;

/// TODO: your network. It makes logits of named features; loss, metrics and predictions are the
/// head's.
class Net : public muster::Model {
 public:
  explicit Net(std::int64_t units)
      : hidden_(register_module("hidden", std::make_shared<muster::Dense>(2, units))),
        logits_(register_module("logits", std::make_shared<muster::Dense>(units, kClasses))) {}

  torch::Tensor forward(const muster::Features& features) override {
    const auto point = torch::stack({features.tensor("x"), features.tensor("y")}, 1);
    return logits_->forward(torch::relu(hidden_->forward(point)));
  }

 private:
  std::shared_ptr<muster::Dense> hidden_;
  std::shared_ptr<muster::Dense> logits_;
};

}  // namespace

void add_model_flags(muster::FlagSet& set, ModelOptions& options) {
  set.add("--learning-rate", &options.learning_rate, "Of Adam").positive();
  set.add("--hidden-units", &options.hidden_units, "Of the hidden layer").positive();
}

muster::Estimator make_estimator(const ModelOptions& options, std::int64_t /*max_steps*/,
                                 const muster::RunConfig& config) {
  return muster::Estimator(
      {.model = [units = options.hidden_units] { return std::make_shared<Net>(units); },
       .head = muster::multi_class_head(kClasses),
       .optimizer = muster::adam({.learning_rate = options.learning_rate})},
      config);
}
