#include "muster/graph/data_type.h"

#include <iterator>

namespace muster::graph {
namespace {

struct TypeRow {
  std::string_view name;
  std::string_view ref_name;
  std::size_t bytes;
};

#define MUSTER_TYPE(name, bytes) \
  { "DT_" name, "DT_" name "_REF", bytes }

// In the order of TensorFlow's numbers.
constexpr TypeRow kTypes[] = {
    {"DT_INVALID", "", 0},
    MUSTER_TYPE("FLOAT", 4),
    MUSTER_TYPE("DOUBLE", 8),
    MUSTER_TYPE("INT32", 4),
    MUSTER_TYPE("UINT8", 1),
    MUSTER_TYPE("INT16", 2),
    MUSTER_TYPE("INT8", 1),
    MUSTER_TYPE("STRING", 0),
    MUSTER_TYPE("COMPLEX64", 8),
    MUSTER_TYPE("INT64", 8),
    MUSTER_TYPE("BOOL", 1),
    MUSTER_TYPE("QINT8", 1),
    MUSTER_TYPE("QUINT8", 1),
    MUSTER_TYPE("QINT32", 4),
    MUSTER_TYPE("BFLOAT16", 2),
    MUSTER_TYPE("QINT16", 2),
    MUSTER_TYPE("QUINT16", 2),
    MUSTER_TYPE("UINT16", 2),
    MUSTER_TYPE("COMPLEX128", 16),
    MUSTER_TYPE("HALF", 2),
    MUSTER_TYPE("RESOURCE", 0),
    MUSTER_TYPE("VARIANT", 0),
    MUSTER_TYPE("UINT32", 4),
    MUSTER_TYPE("UINT64", 8),
    MUSTER_TYPE("FLOAT8_E5M2", 1),
    MUSTER_TYPE("FLOAT8_E4M3FN", 1),
    MUSTER_TYPE("FLOAT8_E4M3FNUZ", 1),
    MUSTER_TYPE("FLOAT8_E4M3B11FNUZ", 1),
    MUSTER_TYPE("FLOAT8_E5M2FNUZ", 1),
    MUSTER_TYPE("INT4", 1),
    MUSTER_TYPE("UINT4", 1),
    MUSTER_TYPE("INT2", 1),
    MUSTER_TYPE("UINT2", 1),
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

}  // namespace muster::graph
