#pragma once

#include "muster/muster.h"

/// What can be tuned of the model.
struct ModelOptions {
  double learning_rate = 0.001;
  /// The part of values that dropout keeps.
  double keep_prob = 0.5;
};

/// The model with its head and optimizer: what an Estimator is made of.
muster::EstimatorOptions estimator_options(const ModelOptions& options);
