#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/saved_model/graph/graph_def.h"

namespace muster::graph {

/// The operations that exist, with their inputs, outputs and attributes.
class OpRegistry {
 public:
  OpRegistry() = default;
  /// Reads a list of operations in protobuf's text format, as TensorFlow's ops.pbtxt. Throws
  /// DataLoss with line and column.
  static OpRegistry parse_text(std::string_view text);
  /// The same from a file, which may be compressed (.gz, .xz).
  static OpRegistry read(const Path& path);

  void add(OpDef op);
  std::size_t size() const { return ops_.size(); }
  /// The definition, or nullptr.
  const OpDef* find(std::string_view name) const;
  std::vector<std::string> names() const;

  /// Throws InvalidArgument at the first node, of the graph or of a function, whose operation is
  /// unknown, whose attributes are missing, of a wrong kind or outside of what is allowed, or whose
  /// number or types of inputs are wrong. The graph must have passed check_graph.
  void check(const GraphDef& graph) const;
  /// "node: attribute" for each that a node of the graph could do without, since it has the default
  /// of its operation.
  std::vector<std::string> spelt_out_defaults(const GraphDef& graph) const;

 private:
  std::map<std::string, OpDef, std::less<>> ops_;
};

/// The types of the values that the arguments stand for, one a value, with a node's attributes.
/// Throws InvalidArgument where an attribute is missing.
std::vector<DataType> argument_types(const std::vector<ArgDef>& arguments, const Attrs& attrs);

}  // namespace muster::graph
