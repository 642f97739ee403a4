#include "model.h"

#include <torch/types.h>

#include "muster/model/api.h"

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

muster::EstimatorOptions estimator_options(const ModelOptions& options) {
  return {.model = [units = options.hidden_units] { return std::make_shared<Net>(units); },
          .head = muster::multi_class_head(kClasses),
          .optimizer = muster::adam({.learning_rate = options.learning_rate})};
}
