#pragma once

#include "muster/muster.h"

/// The model's hyperparameters.
struct ModelOptions {
  double learning_rate = 0.02;
  std::int64_t embedding_size = 8;
  std::int64_t first_layer_size = 100;
  std::int64_t num_layers = 4;
  double scale_factor = 0.7;
};
void add_model_flags(muster::FlagSet& set, ModelOptions& options);

/// Columns that the model reads. The wide part memorises words and crosses of words; the deep part
/// generalises.
struct Columns {
  muster::FeatureColumnList wide{};
  muster::FeatureColumnList deep{};
};
Columns make_columns(const ModelOptions& options);

muster::Estimator make_estimator(const ModelOptions& options, std::int64_t max_steps,
                                 const muster::RunConfig& config);
