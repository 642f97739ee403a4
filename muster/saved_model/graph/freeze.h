#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/saved_model/graph/saved_model.h"

namespace muster {
class BundleReader;
}

namespace muster::graph {

/// Entries of a table of the graph: as many values as keys.
struct LookupTable {
  TensorValue keys{};
  TensorValue values{};
};

/// One signature and the graph that computes it, with nothing else in it.
struct FrozenGraph {
  /// Every node comes after its inputs.
  GraphDef graph{};
  /// Its inputs are nodes "Placeholder"; it names the tensors of `graph`.
  SignatureDef signature{};
  /// The inputs at which feature columns were cut off, each with the tensor that it is in the whole
  /// graph: "SparseCross:1".
  std::map<std::string, std::string, std::less<>> columns{};
  /// The inputs that are features as a parser gives them, under the features' names, each with the
  /// tensor that it is in the whole graph.
  std::map<std::string, std::string, std::less<>> features{};
  /// With FreezeOptions::lookups: the tables that nodes LookupTableFindV2 read, by their nodes.
  std::map<std::string, LookupTable, std::less<>> tables{};
};

struct FreezeOptions {
  /// The outputs to keep, by their keys; empty: all of them.
  std::vector<std::string> outputs{};
  /// Numbers only: strings stay outside. Outputs that are strings are dropped, and what makes
  /// numbers of strings (parsing, lookup tables, hashing, bucketing: feature columns) is cut off
  /// where it ends: the tensors that come out of it become the inputs, under their nodes' names. A
  /// feature of numbers that a parser gives becomes an input under its name.
  bool numeric = false;
  /// With `numeric`: words that are looked up and numbers that are put into buckets stay inside, so
  /// that inputs may be strings; what hashes and crosses give is still cut off. Tables have the
  /// entries that constants of the graph, or files in `assets_dir`, have.
  bool lookups = false;
  Path assets_dir{};
  /// With `lookups`: hashes and crosses stay inside too, as TensorFlow's operations, so that inputs
  /// are features alone. Words are compared with those of their table, since nothing fills the
  /// tables of a graph that is alone; a table of more than 10,000 words is still cut off.
  bool columns = false;
  /// An input that is only reshaped to constant sizes (of which the first may be open) is handed in
  /// with them: OpenCV's reader of these graphs wants images, not rows of pixels.
  bool reshaped_inputs = false;
  /// An input of whole numbers that is only cast to float is handed in as float: OpenCV has no
  /// other images.
  bool float_inputs = false;
  GraphLimits limits{};
};

/// The signature without variables and calls: variables become constants with the values of the
/// bundle, functions stand where they are called, only what the outputs need is kept, and nodes
/// that do nothing (Identity, StopGradient) are dropped unless an output is called after them, and
/// what follows from constants alone is computed where it is plain arithmetic. Control inputs are
/// dropped with what they would have run.
///
/// A variable has the value that the graph's saver restores, or, where it has none, the one under
/// its own name. `bundle` may be null for a graph without variables. Throws InvalidArgument for an
/// output that the signature lacks, for a variable that the bundle lacks or has with another type
/// or shape, and when nothing is left; Unimplemented for a variable that is used in another way
/// than by reading it; ResourceExhausted beyond a limit. Errors name the node.
FrozenGraph freeze(const MetaGraph& meta, const SignatureDef& signature, const BundleReader* bundle,
                   const FreezeOptions& options = {});

}  // namespace muster::graph
