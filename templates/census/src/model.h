#pragma once

#include "data.h"
#include "muster/muster.h"

/// What can be tuned of the model.
struct ModelOptions {
  double learning_rate = 0.02;
  std::int64_t embedding_size = 8;
  std::int64_t first_layer_size = 100;
  std::int64_t num_layers = 4;
  double scale_factor = 0.7;
};

/// What the model reads. The wide part remembers words and crosses of words; the deep part
/// generalises.
struct Columns {
  muster::FeatureColumnList wide{};
  muster::FeatureColumnList deep{};
};
Columns make_columns(const ModelOptions& options);
/// What an input has to make of the features for them.
ColumnSets column_sets(const Columns& columns);

muster::Estimator make_estimator(const ModelOptions& options, const Columns& columns,
                                 const muster::RunConfig& config);

/// How a server hands people to the exported model: a tensor per feature.
muster::ServingInput serving_input(const Columns& columns);
