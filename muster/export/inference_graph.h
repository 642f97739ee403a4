#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/export/serving_input.h"
#include "muster/saved_model/graph/saved_model.h"

namespace muster {

class Estimator;

/// Graph of a model's prediction, with its inputs and without values: any checkpoint of the
/// estimator completes it.
struct InferenceGraph {
  /// Signatures, saver, tables and assets are there; the saver names the variables.
  graph::MetaGraph meta{};
  /// Contents of the files in assets/, by name.
  std::vector<std::pair<std::string, std::string>> assets{};
};

/// The inference graph of an untrained model. Where the estimator keeps moving averages, the saver
/// restores those, as evaluation and prediction do. Throws as export_saved_model() does for a model
/// that cannot be exported.
InferenceGraph inference_graph(const Estimator& estimator, const ServingInput& input);

/// Writes MODEL_DIR/graph.pb, a SavedModel message with this one graph, instead of one that is
/// there, and its assets to MODEL_DIR/graph.assets/. The graph comes last, so a reader of it finds
/// its assets.
void write_inference_graph(const InferenceGraph& graph, const Path& model_dir);

}  // namespace muster
