#pragma once

#include "muster/muster.h"

/// The model's hyperparameters.
struct ModelOptions {
  std::int64_t hidden_units = 32;
  double learning_rate = 0.01;
};
void add_model_flags(muster::FlagSet& set, ModelOptions& options);

/// The model with its head and optimizer; `max_steps` is where training will end.
muster::Estimator make_estimator(const ModelOptions& options, std::int64_t max_steps,
                                 const muster::RunConfig& config);
