#include "muster/checkpoint/tensor_type.h"

#include <algorithm>
#include <array>

namespace muster {
namespace {

struct TypeRow {
  TensorType type;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array kTypes{
    TypeRow{TensorType::kFloat, "float32", 4},
    TypeRow{TensorType::kDouble, "float64", 8},
    TypeRow{TensorType::kInt32, "int32", 4},
    TypeRow{TensorType::kUint8, "uint8", 1},
    TypeRow{TensorType::kInt16, "int16", 2},
    TypeRow{TensorType::kInt8, "int8", 1},
    TypeRow{TensorType::kString, "string", 0},
    TypeRow{TensorType::kComplex64, "complex64", 8},
    TypeRow{TensorType::kInt64, "int64", 8},
    TypeRow{TensorType::kBool, "bool", 1},
    TypeRow{TensorType::kQint8, "qint8", 1},
    TypeRow{TensorType::kQuint8, "quint8", 1},
    TypeRow{TensorType::kQint32, "qint32", 4},
    TypeRow{TensorType::kBfloat16, "bfloat16", 2},
    TypeRow{TensorType::kQint16, "qint16", 2},
    TypeRow{TensorType::kQuint16, "quint16", 2},
    TypeRow{TensorType::kUint16, "uint16", 2},
    TypeRow{TensorType::kComplex128, "complex128", 16},
    TypeRow{TensorType::kHalf, "float16", 2},
    TypeRow{TensorType::kUint32, "uint32", 4},
    TypeRow{TensorType::kUint64, "uint64", 8},
    TypeRow{TensorType::kFloat8E5m2, "float8_e5m2", 1},
    TypeRow{TensorType::kFloat8E4m3fn, "float8_e4m3fn", 1},
};

const TypeRow* find(int number) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [number](const TypeRow& candidate) {
    return static_cast<int>(candidate.type) == number;
  });
  return row == kTypes.end() ? nullptr : &*row;
}

}  // namespace

std::optional<TensorType> tensor_type_from(int number) {
  const TypeRow* row = find(number);
  return row == nullptr ? std::nullopt : std::optional(row->type);
}

std::string_view name_of(TensorType type) {
  const TypeRow* row = find(static_cast<int>(type));
  return row == nullptr ? "unknown" : row->name;
}

std::size_t element_bytes(TensorType type) {
  const TypeRow* row = find(static_cast<int>(type));
  return row == nullptr ? 0 : row->bytes;
}

}  // namespace muster
