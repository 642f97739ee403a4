#pragma once

#include <cstdint>

#include "muster/saved_model/graph/tensor_value.h"

namespace muster::serving {

template <typename T>
void append_number(T value, graph::TensorValue& out) {
  out.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// How a reader of JSON puts an element of that type into a tensor: one of the functions put_float,
/// put_integer, put_bool and put_string of `Reader`. nullptr for types that JSON cannot hold.
template <typename Reader>
auto put_of(graph::DataType type) -> decltype(&Reader::put_bool) {
  using graph::DataType;
  switch (type) {
    case DataType::kFloat:
      return &Reader::template put_float<float>;
    case DataType::kDouble:
      return &Reader::template put_float<double>;
    case DataType::kInt8:
      return &Reader::template put_integer<std::int8_t>;
    case DataType::kInt16:
      return &Reader::template put_integer<std::int16_t>;
    case DataType::kInt32:
      return &Reader::template put_integer<std::int32_t>;
    case DataType::kInt64:
      return &Reader::template put_integer<std::int64_t>;
    case DataType::kUint8:
      return &Reader::template put_integer<std::uint8_t>;
    case DataType::kUint16:
      return &Reader::template put_integer<std::uint16_t>;
    case DataType::kUint32:
      return &Reader::template put_integer<std::uint32_t>;
    case DataType::kUint64:
      return &Reader::template put_integer<std::uint64_t>;
    case DataType::kBool:
      return &Reader::put_bool;
    case DataType::kString:
      return &Reader::put_string;
    default:
      return nullptr;
  }
}

}  // namespace muster::serving
