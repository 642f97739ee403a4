// Tensors as JSON, in the layout of TensorFlow Serving.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/serving/codec/json_text_internal.h"
#include "muster/serving/codec/predict_request.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;
using nlohmann::json;

template <typename T>
T element_at(const TensorValue& tensor, std::size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof value, sizeof value);
  return value;
}

void write_text(std::string_view text, std::string& out) {
  if (append_quoted(text, out)) return;
  throw InvalidArgument(
      "an output is no UTF-8 text; an output whose name ends in _bytes is given in base64");
}

template <typename T>
void write_float(T value, std::string& out) {
  if (std::isnan(value)) {
    out += "NaN";
    return;
  }
  if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
    return;
  }
  append_shortest(value, out);
}

template <typename T>
void write_integer(T value, std::string& out) {
  fmt::format_to(std::back_inserter(out), "{}", static_cast<std::int64_t>(value));
}

void write_element(const TensorValue& tensor, std::size_t index, bool as_bytes, std::string& out) {
  switch (tensor.dtype) {
    case DataType::kFloat:
      return write_float(element_at<float>(tensor, index), out);
    case DataType::kDouble:
      return write_float(element_at<double>(tensor, index), out);
    case DataType::kInt8:
      return write_integer(element_at<std::int8_t>(tensor, index), out);
    case DataType::kInt16:
      return write_integer(element_at<std::int16_t>(tensor, index), out);
    case DataType::kInt32:
      return write_integer(element_at<std::int32_t>(tensor, index), out);
    case DataType::kInt64:
      return write_integer(element_at<std::int64_t>(tensor, index), out);
    case DataType::kUint8:
      return write_integer(element_at<std::uint8_t>(tensor, index), out);
    case DataType::kUint16:
      return write_integer(element_at<std::uint16_t>(tensor, index), out);
    case DataType::kUint32:
      return write_integer(element_at<std::uint32_t>(tensor, index), out);
    case DataType::kUint64:
      fmt::format_to(std::back_inserter(out), "{}", element_at<std::uint64_t>(tensor, index));
      return;
    case DataType::kBool:
      out += element_at<std::uint8_t>(tensor, index) != 0 ? "true" : "false";
      return;
    case DataType::kString:
      if (!as_bytes) return write_text(tensor.strings[index], out);
      out += fmt::format("{{\"b64\": \"{}\"}}", base64_encode(tensor.strings[index]));
      return;
    default: {
      std::string word(graph::name_of(tensor.dtype).substr(3));
      for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      throw InvalidArgument("Failed to write JSON value for tensor type: {}", word);
    }
  }
}

// The elements from `index` on that the dimensions from `axis` on hold; moves `index` on.
void write_part(const TensorValue& tensor, std::size_t axis, std::size_t& index, bool as_bytes,
                std::string& out) {
  if (axis >= tensor.shape.size()) return write_element(tensor, index++, as_bytes, out);
  out += '[';
  for (std::int64_t i = 0; i < tensor.shape[axis]; ++i) {
    if (i > 0) out += ", ";
    write_part(tensor, axis + 1, index, as_bytes, out);
  }
  out += ']';
}

bool is_bytes_name(std::string_view name) { return name.ends_with("_bytes"); }

std::int64_t common_rows(const Tensors& outputs) {
  std::optional<std::int64_t> rows;
  for (const auto& [name, tensor] : outputs) {
    if (tensor.shape.empty()) {
      throw InvalidArgument("Tensor name: {} has no shape information ", name);
    }
    if (rows && *rows != tensor.shape[0]) {
      throw InvalidArgument("Tensor name: {} has inconsistent batch size: {} expecting: {}", name,
                            tensor.shape[0], *rows);
    }
    rows = tensor.shape[0];
  }
  return rows.value_or(0);
}

// An output while its rows are written.
struct AnswerColumn {
  const TensorValue& tensor;
  // The name as JSON, and what stands after it.
  std::string label;
  bool as_bytes = false;
  // The first element of the next row.
  std::size_t place = 0;
};

std::string row_answer(const Tensors& outputs) {
  const std::int64_t rows = common_rows(outputs);
  std::vector<AnswerColumn> columns;
  columns.reserve(outputs.size());
  for (const auto& [name, tensor] : outputs) {
    columns.push_back({.tensor = tensor,
                       .label = json_string_lossy(name) + ": ",
                       .as_bytes = is_bytes_name(name)});
  }
  std::string out = "{\n    \"predictions\": [";
  const bool is_single = columns.size() == 1;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (is_single) {
      if (row > 0) out += ", ";
      write_part(columns[0].tensor, 1, columns[0].place, columns[0].as_bytes, out);
      continue;
    }
    out += row > 0 ? ",\n        {" : "\n        {";
    bool is_first = true;
    for (AnswerColumn& column : columns) {
      out += std::exchange(is_first, false) ? "\n            " : ",\n            ";
      out += column.label;
      write_part(column.tensor, 1, column.place, column.as_bytes, out);
    }
    out += "\n        }";
  }
  return out + "\n    ]\n}";
}

std::string column_answer(const Tensors& outputs) {
  if (outputs.size() == 1) {
    const auto& [name, tensor] = *outputs.begin();
    return "{\n    \"outputs\": " + tensor_json(tensor, is_bytes_name(name)) + "\n}";
  }
  std::string out = "{\n    \"outputs\": {";
  bool first = true;
  for (const auto& [name, tensor] : outputs) {
    out += first ? "\n        " : ",\n        ";
    out += json_string_lossy(name) + ": " + tensor_json(tensor, is_bytes_name(name));
    first = false;
  }
  return out + "\n    }\n}";
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out;
  write_text(text, out);
  return out;
}

std::string json_string_lossy(std::string_view text) {
  std::string out;
  if (append_quoted(text, out)) return out;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string tensor_json(const TensorValue& tensor, bool as_bytes) {
  std::string out;
  std::size_t index = 0;
  write_part(tensor, 0, index, as_bytes, out);
  return out;
}

std::string predict_answer(const Tensors& outputs, bool row_form) {
  if (outputs.empty()) throw InvalidArgument("Cannot convert empty tensor map to JSON");
  for (const auto& [name, tensor] : outputs) tensor.check();
  return row_form ? row_answer(outputs) : column_answer(outputs);
}

std::string error_answer(std::string_view text) {
  return "{\n    \"error\": " + json_string_lossy(text) + "\n}";
}

}  // namespace muster::serving
