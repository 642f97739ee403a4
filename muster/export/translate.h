#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/export/program.h"
#include "muster/saved_model/graph/graph_def.h"

namespace muster::exporting {

/// A tensor of a graph: "probabilities:0", its type and its shape, -1 where it follows the batch.
struct GraphTensor {
  std::string name{};
  graph::DataType type = graph::DataType::kFloat;
  graph::Shape shape{};
};

/// A variable of the graph: the node that holds it, its name in the bundle, and the node that reads
/// it.
struct GraphVariable {
  std::string node{};
  std::string read{};
  ModuleVariable variable{};
};

/// A model's predictions as a graph of TensorFlow's operations, without the nodes of a saver.
struct TranslatedModel {
  graph::GraphDef graph{};
  /// Placeholders by feature, in the order of the features.
  std::vector<std::pair<std::string, GraphTensor>> inputs{};
  /// By prediction; string predictions are there too.
  std::vector<std::pair<std::string, GraphTensor>> outputs{};
  std::vector<GraphVariable> variables{};
};

/// Throws Unimplemented, naming the operation and its module, for what has no translation.
TranslatedModel translate(const Program& program);

/// Every operation of libtorch that has a translation, and TensorFlow's operations it becomes, in
/// the order of names: what the documents list.
std::vector<std::pair<std::string, std::string>> translated_operations();
/// The same as a page of Markdown: docs/formats/translated_operations.md.
std::string translated_operations_page();

}  // namespace muster::exporting
