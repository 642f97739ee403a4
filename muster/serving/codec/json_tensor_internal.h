#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "muster/saved_model/graph/tensor_value.h"

namespace muster::serving {

/// Gathers nested lists of numbers, truths or strings into one tensor. All parts have the shape of
/// the first; numbers keep to their type: no fractions for whole numbers, nothing that overflows,
/// no strings for numbers and no numbers for strings.
class TensorBuilder {
 public:
  /// Throws Unimplemented for a type that JSON cannot hold.
  explicit TensorBuilder(graph::DataType type);

  /// Throws InvalidArgument for a value of another kind or shape.
  void add(const nlohmann::json& value);

  /// Shape of one part; empty before the first.
  const std::vector<std::int64_t>& part_shape() const { return shape_; }

  /// The tensor [parts, part_shape...].
  graph::TensorValue stacked() &&;
  /// The only part.
  graph::TensorValue single() &&;

 private:
  void append(const nlohmann::json& value, std::size_t depth);

  using AppendElement = void (*)(const nlohmann::json& value, graph::TensorValue& out);
  AppendElement append_element_;
  graph::TensorValue tensor_{};
  std::int64_t parts_ = 0;
  std::vector<std::int64_t> shape_{};
};

/// The sizes of nested lists, going by the first element of each. Throws InvalidArgument beyond 32
/// of them.
std::vector<std::int64_t> list_shape(const nlohmann::json& value);

/// Throws InvalidArgument if the first element of nested lists is not of this type: a string in
/// place of a list of numbers is an error of type, from which that of its shape follows.
void check_first_element(graph::DataType type, const nlohmann::json& value);

}  // namespace muster::serving
