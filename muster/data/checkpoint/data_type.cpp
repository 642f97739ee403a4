#include "muster/data/checkpoint/data_type.h"

#include <iterator>

namespace muster {
namespace {

struct TypeRow {
  std::string_view name;
  std::string_view ref_name;
  std::size_t bytes;
  /// NumPy's name of the type; empty for a type that is not stored.
  std::string_view numpy_name;
};

#define MUSTER_TYPE(name, bytes, numpy_name) \
  { "DT_" name, "DT_" name "_REF", bytes, numpy_name }

// In the order of TensorFlow's numbers.
constexpr TypeRow kTypes[] = {
    {"DT_INVALID", "", 0, ""},
    MUSTER_TYPE("FLOAT", 4, "float32"),
    MUSTER_TYPE("DOUBLE", 8, "float64"),
    MUSTER_TYPE("INT32", 4, "int32"),
    MUSTER_TYPE("UINT8", 1, "uint8"),
    MUSTER_TYPE("INT16", 2, "int16"),
    MUSTER_TYPE("INT8", 1, "int8"),
    MUSTER_TYPE("STRING", 0, "string"),
    MUSTER_TYPE("COMPLEX64", 8, "complex64"),
    MUSTER_TYPE("INT64", 8, "int64"),
    MUSTER_TYPE("BOOL", 1, "bool"),
    MUSTER_TYPE("QINT8", 1, "qint8"),
    MUSTER_TYPE("QUINT8", 1, "quint8"),
    MUSTER_TYPE("QINT32", 4, "qint32"),
    MUSTER_TYPE("BFLOAT16", 2, "bfloat16"),
    MUSTER_TYPE("QINT16", 2, "qint16"),
    MUSTER_TYPE("QUINT16", 2, "quint16"),
    MUSTER_TYPE("UINT16", 2, "uint16"),
    MUSTER_TYPE("COMPLEX128", 16, "complex128"),
    MUSTER_TYPE("HALF", 2, "float16"),
    MUSTER_TYPE("RESOURCE", 0, ""),
    MUSTER_TYPE("VARIANT", 0, ""),
    MUSTER_TYPE("UINT32", 4, "uint32"),
    MUSTER_TYPE("UINT64", 8, "uint64"),
    MUSTER_TYPE("FLOAT8_E5M2", 1, "float8_e5m2"),
    MUSTER_TYPE("FLOAT8_E4M3FN", 1, "float8_e4m3fn"),
    MUSTER_TYPE("FLOAT8_E4M3FNUZ", 1, ""),
    MUSTER_TYPE("FLOAT8_E4M3B11FNUZ", 1, ""),
    MUSTER_TYPE("FLOAT8_E5M2FNUZ", 1, ""),
    MUSTER_TYPE("INT4", 1, ""),
    MUSTER_TYPE("UINT4", 1, ""),
    MUSTER_TYPE("INT2", 1, ""),
    MUSTER_TYPE("UINT2", 1, ""),
};

#undef MUSTER_TYPE

constexpr int kRefOffset = 100;
constexpr int kCount = static_cast<int>(std::size(kTypes));

int number_of(DataType type) { return static_cast<int>(type); }

}  // namespace

std::optional<DataType> data_type_from(std::int64_t number) {
  const bool plain = number >= 0 && number < kCount;
  const bool reference = number > kRefOffset && number < kRefOffset + kCount;
  return plain || reference ? std::optional(static_cast<DataType>(number)) : std::nullopt;
}

std::string_view name_of(DataType type) {
  if (!data_type_from(number_of(type))) return kTypes[0].name;
  const TypeRow& row = kTypes[number_of(without_ref(type))];
  return is_ref(type) ? row.ref_name : row.name;
}

bool is_stored(DataType type) {
  const int number = number_of(type);
  return number >= 0 && number < kCount && !kTypes[number].numpy_name.empty();
}

std::string_view numpy_name(DataType type) {
  return is_stored(type) ? kTypes[number_of(type)].numpy_name : "unknown";
}

std::optional<DataType> data_type_named(std::string_view name) {
  for (int number = 0; number < kCount; ++number) {
    if (kTypes[number].name == name) return static_cast<DataType>(number);
    if (number > 0 && kTypes[number].ref_name == name) {
      return static_cast<DataType>(number + kRefOffset);
    }
  }
  return std::nullopt;
}

bool is_ref(DataType type) { return number_of(type) > kRefOffset; }

DataType without_ref(DataType type) {
  return is_ref(type) ? static_cast<DataType>(number_of(type) - kRefOffset) : type;
}

DataType with_ref(DataType type) {
  return is_ref(type) ? type : static_cast<DataType>(number_of(type) + kRefOffset);
}

std::size_t element_bytes(DataType type) {
  const int number = number_of(type);
  return number >= 0 && number < kCount ? kTypes[number].bytes : 0;
}

}  // namespace muster
