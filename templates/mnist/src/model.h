#pragma once

#include "muster/muster.h"

/// The model's hyperparameters.
struct ModelOptions {
  double learning_rate = 0.001;
  /// The part of values that dropout keeps.
  double keep_prob = 0.5;
};
void add_model_flags(muster::FlagSet& set, ModelOptions& options);

/// The model with its head and optimizer; `max_steps` is where training will end.
muster::Estimator make_estimator(const ModelOptions& options, std::int64_t max_steps,
                                 const muster::RunConfig& config);
