#include "muster/serving/predictions.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/error.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;

constexpr std::string_view kBytesSuffix = "_bytes";

// In double quotes. Throws for what is no UTF-8.
std::string json_quoted(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument(
        "a string is no UTF-8 text; an output whose name ends in _bytes is given in base64");
  }
}

// Characters that would move a terminal's cursor are spelt out.
std::string printable(std::string_view text, std::string_view also_escaped) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      if (also_escaped.find(c) != also_escaped.npos) out += '\\';
      out += c;
    }
  }
  return out;
}

// As Python writes a string inside of a list.
std::string python_quoted(std::string_view text) {
  json_quoted(text);
  const bool has_single = text.find('\'') != text.npos;
  if (has_single && text.find('"') == text.npos) return '"' + printable(text, "\\") + '"';
  return '\'' + printable(text, "\\'") + '\'';
}

// How one of the two ways to write a value differs from the other.
struct Style {
  std::string (*quoted)(std::string_view text);
  const char* yes;
  const char* no;
  const char* not_a_number;
  const char* infinity;
};

constexpr Style kJson{json_quoted, "true", "false", "NaN", "Infinity"};
constexpr Style kPython{python_quoted, "True", "False", "nan", "inf"};

template <typename T>
T element(const TensorValue& tensor, std::size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof value, sizeof value);
  return value;
}

// The shortest text that reads back as the same double, as Python's.
std::string number_text(double value, const Style& style) {
  if (std::isnan(value)) return style.not_a_number;
  if (std::isinf(value)) return (value < 0 ? "-" : "") + std::string(style.infinity);
  return nlohmann::json(value).dump();
}

std::string string_text(const std::string& value, bool as_bytes, const Style& style) {
  if (!as_bytes) return style.quoted(value);
  return fmt::format("{{{}: {}}}", style.quoted("b64"), style.quoted(base64_encode(value)));
}

std::string element_text(const TensorValue& tensor, std::size_t index, bool as_bytes,
                         const Style& style) {
  switch (tensor.dtype) {
    case DataType::kFloat:
      return number_text(element<float>(tensor, index), style);
    case DataType::kDouble:
      return number_text(element<double>(tensor, index), style);
    case DataType::kInt8:
      return std::to_string(element<std::int8_t>(tensor, index));
    case DataType::kInt16:
      return std::to_string(element<std::int16_t>(tensor, index));
    case DataType::kInt32:
      return std::to_string(element<std::int32_t>(tensor, index));
    case DataType::kInt64:
      return std::to_string(element<std::int64_t>(tensor, index));
    case DataType::kUint8:
      return std::to_string(element<std::uint8_t>(tensor, index));
    case DataType::kUint16:
      return std::to_string(element<std::uint16_t>(tensor, index));
    case DataType::kUint32:
      return std::to_string(element<std::uint32_t>(tensor, index));
    case DataType::kUint64:
      return std::to_string(element<std::uint64_t>(tensor, index));
    case DataType::kBool:
      return element<std::uint8_t>(tensor, index) != 0 ? style.yes : style.no;
    case DataType::kString:
      return string_text(tensor.strings[index], as_bytes, style);
    default:
      throw Unimplemented("outputs of type {} cannot be written as JSON", name_of(tensor.dtype));
  }
}

// Writes the elements from `index` on that the dimensions from `axis` on hold, and moves it on.
void write(const TensorValue& tensor, std::size_t axis, std::size_t& index, bool as_bytes,
           const Style& style, std::string& out) {
  if (axis >= tensor.shape.size()) {
    out += element_text(tensor, index++, as_bytes, style);
    return;
  }
  out += '[';
  for (std::int64_t i = 0; i < tensor.shape[axis]; ++i) {
    if (i > 0) out += ", ";
    write(tensor, axis + 1, index, as_bytes, style, out);
  }
  out += ']';
}

std::int64_t rows_of(const TensorValue& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape.front();
}

std::string row_text(const std::string& key, const TensorValue& tensor, std::int64_t row,
                     const Style& style) {
  std::size_t index = 0;
  if (!tensor.shape.empty()) {
    const std::span<const std::int64_t> inner(tensor.shape.begin() + 1, tensor.shape.end());
    index = static_cast<std::size_t>(row * graph::element_count(inner).value_or(0));
  }
  std::string text;
  try {
    write(tensor, 1, index, key.ends_with(kBytesSuffix), style, text);
  } catch (Error& error) {
    error.add_context(fmt::format("output {}", key));
    throw;
  }
  return text;
}

}  // namespace

Predictions::Predictions(Tensors outputs) : outputs_(std::move(outputs)) {
  std::optional<std::int64_t> size;
  for (const auto& [key, tensor] : outputs_) {
    tensor.check();
    const std::int64_t rows = rows_of(tensor);
    if (size && rows != *size) {
      std::vector<std::string> sizes;
      for (const auto& [name, value] : outputs_) {
        sizes.push_back(fmt::format("{}: {}", name, rows_of(value)));
      }
      throw InvalidArgument(
          "Bad output: outputs had differing sizes in the batch (outer) dimension. See the outputs "
          "and their size: {}. Check your model for bugs that effect the size of the outputs.",
          fmt::join(sizes, ", "));
    }
    size = rows;
  }
  size_ = size.value_or(0);
}

std::vector<std::string> Predictions::keys() const {
  std::vector<std::string> keys;
  for (const auto& row : outputs_) keys.push_back(row.first);
  return keys;
}

std::string Predictions::json(std::int64_t row) const {
  std::string text = "{";
  for (const auto& [key, tensor] : outputs_) {
    if (text.size() > 1) text += ", ";
    text += json_quoted(key) + ": " + row_text(key, tensor, row, kJson);
  }
  return text + "}";
}

std::string Predictions::json(std::int64_t row, std::string_view key) const {
  const auto found = outputs_.find(key);
  if (found == outputs_.end()) throw NotFound("there is no output {}", key);
  return row_text(found->first, found->second, row, kJson);
}

std::string Predictions::cell(std::int64_t row, std::string_view key) const {
  const auto found = outputs_.find(key);
  if (found == outputs_.end()) throw NotFound("there is no output {}", key);
  const TensorValue& tensor = found->second;
  const bool is_bare =
      tensor.shape.size() <= 1 && tensor.dtype == DataType::kString && !key.ends_with(kBytesSuffix);
  if (!is_bare) return row_text(found->first, tensor, row, kPython);
  const std::string& text = tensor.strings[static_cast<std::size_t>(row)];
  row_text(found->first, tensor, row, kPython);  // Throws for what is no text.
  return printable(text, "");
}

}  // namespace muster::serving
