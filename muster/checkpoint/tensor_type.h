#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace muster {

/// The type of a tensor's elements. The numbers are TensorFlow's DataType, so a file's number is
/// one of these after tensor_type_from() has checked it.
enum class TensorType : int {
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kQint8 = 11,
  kQuint8 = 12,
  kQint32 = 13,
  kBfloat16 = 14,
  kQint16 = 15,
  kQuint16 = 16,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kUint32 = 22,
  kUint64 = 23,
  kFloat8E5m2 = 24,
  kFloat8E4m3fn = 25,
};

/// Nothing for a number that is no type of stored tensors.
std::optional<TensorType> tensor_type_from(int number);

/// As numpy and TensorFlow spell it: "float32", "int64", "string".
std::string_view name_of(TensorType type);

/// The size of one element; 0 for strings, whose elements have no fixed size.
std::size_t element_bytes(TensorType type);

}  // namespace muster
