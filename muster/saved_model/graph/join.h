#pragma once

#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/saved_model/graph/saved_model.h"

/// A model's graph and a checkpoint of its training, which lie apart in a model_dir, as one
/// SavedModel. No libtorch and no program of the user's is needed.
namespace muster::graph {

/// MODEL_DIR/graph.pb: a SavedModel message with one graph that has no values yet.
Path inference_graph_path(const Path& model_dir);
/// MODEL_DIR/graph.assets: the files of its assets.
Path inference_assets_dir(const Path& model_dir);

/// Reads MODEL_DIR/graph.pb. Throws NotFound, which says how the file comes about, DataLoss and
/// ResourceExhausted.
MetaGraph read_inference_graph(const Path& model_dir, const GraphLimits& limits = {});

/// A variable that a graph restores.
struct RestoredVariable {
  /// Its name in the bundle.
  std::string name{};
  DataType type = DataType::kInvalid;
  /// Shape of the variable; of any rank where the graph does not tell.
  Shape shape{};
  /// The node that holds it; empty where the graph does not assign it to one as a whole.
  std::string node{};
};

/// The variables that the graph's saver restores, sorted by name; none without a saver. Throws
/// InvalidArgument for a saver whose nodes are not those of TensorFlow's Saver.
std::vector<RestoredVariable> restored_variables(const MetaGraph& meta);

/// Throws InvalidArgument unless the checkpoint has every variable that the graph restores, with
/// its type and shape; the message names those that are missing or differ.
void check_checkpoint(const MetaGraph& meta, const BundleReader& checkpoint);

/// Writes the SavedModel `dir`: this graph, the variables that it restores out of the checkpoint
/// (and nothing else of it), and its assets from `assets_dir`. Throws as check_checkpoint does,
/// NotFound for an asset, AlreadyExists if `dir` is there; nothing is left behind then.
void write_joined_model(const MetaGraph& meta, const Path& assets_dir,
                        const BundleReader& checkpoint, const Path& dir);

}  // namespace muster::graph
