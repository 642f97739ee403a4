#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/export/graph_builder_internal.h"
#include "muster/export/serving_input.h"
#include "muster/export/translate.h"

namespace muster::exporting {

/// A raw feature in a graph: dense, or sparse with places [n, 2].
struct GraphFeature {
  graph::DataType type = graph::DataType::kFloat;
  /// The dense tensor, or the values of the sparse one [n].
  std::string values{};
  /// Sizes after the rows, for a dense tensor.
  std::vector<std::int64_t> shape{};
  /// Indices int64 [n, 2] and dense shape int64 [2], for a sparse tensor.
  std::string indices{};
  std::string dense_shape{};

  bool is_sparse() const { return !indices.empty(); }
};

using GraphFeatures = std::map<std::string, GraphFeature, std::less<>>;

/// Where examples come in.
struct GraphReceiver {
  /// Tensors that callers feed, by the name they know them by.
  std::vector<std::pair<std::string, GraphTensor>> inputs{};
  GraphFeatures features{};
  /// One row of what training takes where an input is missing, by the input's name.
  std::map<std::string, graph::TensorValue, std::less<>> defaults{};
};

/// Adds the nodes that take examples and make raw features of them, and tells the builder where
/// the number of rows is seen. Of a raw input only the features `needed` become inputs, or all if
/// none is. Throws
/// Unimplemented for a raw example with ragged features.
GraphReceiver add_receiver(const ServingInput& input, const std::set<std::string>& needed,
                           GraphBuilder& builder);

/// Features such as this input would give, two rows or more, to trace a model with. The whole
/// numbers that columns read, `ids`, are 0, which every column has a place for.
Features example_of(const ServingInput& input, const std::set<std::string>& ids);

}  // namespace muster::exporting
