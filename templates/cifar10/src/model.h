#pragma once

#include "muster/muster.h"

/// The model's hyperparameters.
struct ModelOptions {
  double learning_rate = 0.1;
  /// 6n + 2: 44 is the network of the paper, 8 learns something in minutes on a CPU.
  std::int64_t num_layers = 8;
  double weight_decay = 2e-4;
};
void add_model_flags(muster::FlagSet& set, ModelOptions& options);

/// The model with its head and optimizer. The learning rate falls to zero at the last step.
muster::Estimator make_estimator(const ModelOptions& options, std::int64_t max_steps,
                                 const muster::RunConfig& config);
