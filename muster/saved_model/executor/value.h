#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "muster/saved_model/graph/data_type.h"
#include "muster/saved_model/graph/tensor_value.h"

/// SavedModels run through ATen.
namespace muster::executor {

/// A tensor of strings: immutable, row-major; copies share the strings.
class StringTensor {
 public:
  /// Throws InvalidArgument when the shape does not hold as many strings as there are.
  StringTensor(std::vector<std::string> values, std::vector<std::int64_t> shape);
  /// A vector of strings.
  explicit StringTensor(std::vector<std::string> values);

  const std::vector<std::string>& values() const { return *values_; }
  const std::vector<std::int64_t>& shape() const { return *shape_; }
  /// The same strings in another shape of as many elements.
  StringTensor reshaped(std::vector<std::int64_t> shape) const;

  bool operator==(const StringTensor& other) const;

 private:
  std::shared_ptr<const std::vector<std::string>> values_;
  std::shared_ptr<const std::vector<std::int64_t>> shape_;
};

/// An input or output of a model.
using Value = std::variant<at::Tensor, StringTensor>;

/// "DT_FLOAT [2, 3]": for messages.
std::string describe(const Value& value);

graph::DataType data_type_of(const Value& value);
std::vector<std::int64_t> shape_of(const Value& value);

/// The type of ATen's elements. Throws Unimplemented for types that libtorch has not.
at::ScalarType scalar_type(graph::DataType type);
/// The other way. Throws Unimplemented.
graph::DataType data_type(at::ScalarType type);

/// A copy in libtorch's memory, on the CPU. Throws InvalidArgument for a value whose bytes do not
/// fill its shape, Unimplemented for types that libtorch has not.
Value to_value(const graph::TensorValue& tensor);
/// The other way, from any device. Throws Unimplemented.
graph::TensorValue to_tensor_value(const Value& value);

}  // namespace muster::executor
