#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/saved_model/graph/graph_def.h"

namespace muster::exporting {

/// A graph under construction: nodes of unique names, each constant once.
class GraphBuilder {
 public:
  /// Adds a node; the name is made unique. Returns it.
  std::string add(std::string_view name, std::string_view op, std::vector<std::string> inputs,
                  graph::Attrs attrs);
  /// Adds a constant, or finds the equal one.
  std::string constant(const graph::TensorValue& value);
  /// A vector of int32.
  std::string ints(const std::vector<std::int64_t>& values);
  /// A single int32, such as an axis.
  std::string int_scalar(std::int64_t value);
  std::string cast(const std::string& input, graph::DataType from, graph::DataType to);
  /// The columns [:, index] of a matrix, as a vector.
  std::string column_of(const std::string& matrix, std::int64_t index, graph::DataType type);

  /// Says which tensor has a row for each example.
  void set_batch_source(std::string tensor, graph::DataType type);
  bool has_batch_source() const { return !batch_source_.empty(); }
  /// The number of rows, a single int32. Throws InvalidArgument when no tensor was named.
  std::string batch_size();

  /// Prefix of the names of nodes that are added from now on.
  void enter(std::string scope) { scope_ = std::move(scope); }
  const std::string& scope() const { return scope_; }

  graph::GraphDef take() { return std::move(graph_); }

 private:
  std::string unique(std::string name);

  graph::GraphDef graph_;
  std::set<std::string, std::less<>> names_;
  std::vector<std::pair<graph::TensorValue, std::string>> constants_;
  std::string scope_;
  std::string batch_source_;
  graph::DataType batch_type_ = graph::DataType::kFloat;
  std::string batch_size_;
};

}  // namespace muster::exporting
