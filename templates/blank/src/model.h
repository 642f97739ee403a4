#pragma once

#include "muster/muster.h"

/// What can be tuned of the model.
struct ModelOptions {
  std::int64_t hidden_units = 32;
  double learning_rate = 0.01;
};

/// The model with its head and optimizer: what an Estimator is made of.
muster::EstimatorOptions estimator_options(const ModelOptions& options);
