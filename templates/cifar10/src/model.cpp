#include "model.h"

#include "data.h"
#include "muster/nn/api.h"

void add_model_flags(muster::FlagSet& set, ModelOptions& options) {
  set.add("--learning-rate", &options.learning_rate, "Of the first step").positive();
  set.add("--num-layers", &options.num_layers, "Of the network: 8, 14, 20, ... 44").positive();
  set.add("--weight-decay", &options.weight_decay, "L2, over all trainable variables")
      .not_negative();
}

muster::Estimator make_estimator(const ModelOptions& options, std::int64_t max_steps,
                                 const muster::RunConfig& config) {
  const auto rate = muster::cosine({.initial = options.learning_rate, .decay_steps = max_steps});
  return muster::Estimator({.model =
                                [layers = options.num_layers] {
                                  return std::make_shared<muster::ResNet>(muster::ResNetOptions{
                                      .num_layers = layers, .num_classes = kClasses});
                                },
                            .head = muster::multi_class_head(kClasses),
                            .optimizer = muster::momentum({.learning_rate = rate, .momentum = 0.9}),
                            .weight_decay = {.factor = options.weight_decay},
                            // Evaluations of short runs are as good as their training.
                            .zero_debias_batch_norm = true},
                           config);
}
