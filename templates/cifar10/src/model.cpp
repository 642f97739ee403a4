#include "model.h"

#include "data.h"
#include "muster/model/api.h"

muster::EstimatorOptions estimator_options(const ModelOptions& options, std::int64_t max_steps) {
  const auto rate = muster::cosine({.initial = options.learning_rate, .decay_steps = max_steps});
  return {.model =
              [layers = options.num_layers] {
                return std::make_shared<muster::ResNet>(
                    muster::ResNetOptions{.num_layers = layers, .num_classes = kClasses});
              },
          .head = muster::multi_class_head(kClasses),
          .optimizer = muster::momentum({.learning_rate = rate, .momentum = 0.9}),
          .weight_decay = {.factor = options.weight_decay},
          // Evaluations of short runs are as good as their training.
          .zero_debias_batch_norm = true};
}
