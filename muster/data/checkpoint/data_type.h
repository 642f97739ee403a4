#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace muster {

/// The type of a tensor's elements, in checkpoints and in graphs. The numbers are TensorFlow's;
/// those above 100 are references to variables, 100 more than the type they refer to.
enum class DataType : std::int32_t {
  kInvalid = 0,
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
  kResource = 20,
  kVariant = 21,
  kUint32 = 22,
  kUint64 = 23,
  kFloat8E5m2 = 24,
  kFloat8E4m3fn = 25,
  kFloat8E4m3fnuz = 26,
  kFloat8E4m3b11fnuz = 27,
  kFloat8E5m2fnuz = 28,
  kInt4 = 29,
  kUint4 = 30,
  kInt2 = 31,
  kUint2 = 32,
  kFloatRef = 101,
  kDoubleRef = 102,
  kInt32Ref = 103,
  kStringRef = 107,
  kInt64Ref = 109,
  kBoolRef = 110,
  kResourceRef = 120,
};

/// Nothing for a number that is none of TensorFlow's types, with or without the 100 of references.
std::optional<DataType> data_type_from(std::int64_t number);

/// Whether tensors of this type are in checkpoints: strings, and what has a size of whole bytes in
/// every TensorFlow that writes it.
bool is_stored(DataType type);

/// "DT_FLOAT", "DT_INT64_REF". "DT_INVALID" for 0 and for what is no type.
std::string_view name_of(DataType type);

/// As numpy spells the types of stored tensors: "float32", "int64", "string"; "unknown" for others.
std::string_view numpy_name(DataType type);

/// The type that "DT_FLOAT" names.
std::optional<DataType> data_type_named(std::string_view name);

bool is_ref(DataType type);
/// The type that a reference refers to; other types stay.
DataType without_ref(DataType type);
/// The reference to a type; a reference stays.
DataType with_ref(DataType type);

/// Bytes of one element in a TensorValue; 0 for strings, resources, variants and references. Types
/// of four bits and less take a byte each.
std::size_t element_bytes(DataType type);

/// The type of a C++ number: `data_type_of<float>()`.
template <typename T>
constexpr DataType data_type_of() = delete;
template <>
constexpr DataType data_type_of<float>() {
  return DataType::kFloat;
}
template <>
constexpr DataType data_type_of<double>() {
  return DataType::kDouble;
}
template <>
constexpr DataType data_type_of<std::int8_t>() {
  return DataType::kInt8;
}
template <>
constexpr DataType data_type_of<std::int16_t>() {
  return DataType::kInt16;
}
template <>
constexpr DataType data_type_of<std::int32_t>() {
  return DataType::kInt32;
}
template <>
constexpr DataType data_type_of<std::int64_t>() {
  return DataType::kInt64;
}
template <>
constexpr DataType data_type_of<std::uint8_t>() {
  return DataType::kUint8;
}
template <>
constexpr DataType data_type_of<std::uint16_t>() {
  return DataType::kUint16;
}
template <>
constexpr DataType data_type_of<std::uint32_t>() {
  return DataType::kUint32;
}
template <>
constexpr DataType data_type_of<std::uint64_t>() {
  return DataType::kUint64;
}
template <>
constexpr DataType data_type_of<bool>() {
  return DataType::kBool;
}

}  // namespace muster
