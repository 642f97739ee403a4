#include "muster/serving/codec/predictions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/serving/codec/json_text_internal.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;

// Most predictions are shorter as text.
constexpr std::size_t kMostUsualBytes = 256;
constexpr std::string_view kBytesSuffix = "_bytes";

// In double quotes. Throws for what is no UTF-8.
void write_json_quoted(std::string_view text, std::string& out) {
  if (append_quoted(text, out)) return;
  throw InvalidArgument(
      "a string is no UTF-8 text; an output whose name ends in _bytes is given in base64");
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
void write_python_quoted(std::string_view text, std::string& out) {
  std::string checked;
  write_json_quoted(text, checked);
  const bool has_single = text.find('\'') != text.npos;
  if (has_single && text.find('"') == text.npos) {
    out += '"' + printable(text, "\\") + '"';
  } else {
    out += '\'' + printable(text, "\\'") + '\'';
  }
}

// How one of the two ways to write a value differs from the other.
struct Style {
  void (*write_quoted)(std::string_view text, std::string& out);
  const char* yes;
  const char* no;
  const char* not_a_number;
  const char* infinity;
};

constexpr Style kJson{write_json_quoted, "true", "false", "NaN", "Infinity"};
constexpr Style kPython{write_python_quoted, "True", "False", "nan", "inf"};

template <typename T>
T element(const TensorValue& tensor, std::size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof value, sizeof value);
  return value;
}

// The shortest text that reads back as the same double, as Python's.
void write_number(double value, const Style& style, std::string& out) {
  if (std::isnan(value)) {
    out += style.not_a_number;
    return;
  }
  if (std::isinf(value)) {
    if (value < 0) out += '-';
    out += style.infinity;
    return;
  }
  append_shortest(value, out);
}

template <typename T>
void write_integer_at(const TensorValue& tensor, std::size_t index, std::string& out) {
  const fmt::format_int digits(+element<T>(tensor, index));
  out.append(digits.data(), digits.size());
}

void write_string(const std::string& value, bool as_bytes, const Style& style, std::string& out) {
  if (!as_bytes) return style.write_quoted(value, out);
  out += '{';
  style.write_quoted("b64", out);
  out += ": ";
  style.write_quoted(base64_encode(value), out);
  out += '}';
}

void write_element_at(const TensorValue& tensor, std::size_t index, bool as_bytes,
                      const Style& style, std::string& out) {
  switch (tensor.dtype) {
    case DataType::kFloat:
      return write_number(element<float>(tensor, index), style, out);
    case DataType::kDouble:
      return write_number(element<double>(tensor, index), style, out);
    case DataType::kInt8:
      return write_integer_at<std::int8_t>(tensor, index, out);
    case DataType::kInt16:
      return write_integer_at<std::int16_t>(tensor, index, out);
    case DataType::kInt32:
      return write_integer_at<std::int32_t>(tensor, index, out);
    case DataType::kInt64:
      return write_integer_at<std::int64_t>(tensor, index, out);
    case DataType::kUint8:
      return write_integer_at<std::uint8_t>(tensor, index, out);
    case DataType::kUint16:
      return write_integer_at<std::uint16_t>(tensor, index, out);
    case DataType::kUint32:
      return write_integer_at<std::uint32_t>(tensor, index, out);
    case DataType::kUint64:
      return write_integer_at<std::uint64_t>(tensor, index, out);
    case DataType::kBool:
      out += element<std::uint8_t>(tensor, index) != 0 ? style.yes : style.no;
      return;
    case DataType::kString:
      return write_string(tensor.strings[index], as_bytes, style, out);
    default:
      throw Unimplemented("outputs of type {} cannot be written as JSON", name_of(tensor.dtype));
  }
}

// Writes the elements from `index` on that the dimensions from `axis` on hold, and moves it on.
void write(const TensorValue& tensor, std::size_t axis, std::size_t& index, bool as_bytes,
           const Style& style, std::string& out) {
  if (axis >= tensor.shape.size()) {
    return write_element_at(tensor, index++, as_bytes, style, out);
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

// The elements that a row has.
std::size_t width_of(const TensorValue& tensor) {
  if (tensor.shape.empty()) return 1;
  const std::span<const std::int64_t> inner(tensor.shape.begin() + 1, tensor.shape.end());
  return static_cast<std::size_t>(graph::element_count(inner).value_or(0));
}

// Whether all rows are like the first one, as those of a classifier that lists its classes are.
bool has_equal_rows(const TensorValue& tensor, std::size_t width) {
  if (tensor.shape.empty() || tensor.shape.front() < 2 || width == 0) return false;
  if (tensor.dtype == DataType::kString) {
    const std::span<const std::string> all(tensor.strings);
    return std::ranges::equal(all.subspan(width), all.first(all.size() - width));
  }
  const std::string_view bytes(tensor.bytes);
  const std::size_t row_bytes = bytes.size() / static_cast<std::size_t>(tensor.shape.front());
  return bytes.substr(row_bytes) == bytes.substr(0, bytes.size() - row_bytes);
}

// The row that begins at the element `index`.
void write_row(const std::string& key, const TensorValue& tensor, std::size_t index,
               const Style& style, std::string& out) {
  try {
    write(tensor, 1, index, key.ends_with(kBytesSuffix), style, out);
  } catch (Error& error) {
    error.add_context(fmt::format("output {}", key));
    throw;
  }
}

// Appends the first row. False, with nothing appended, for values that cannot be written: a caller
// that asks for a row is told why.
bool append_row(const std::string& key, const TensorValue& tensor, std::string& out) {
  const std::size_t begin = out.size();
  try {
    write_row(key, tensor, 0, kJson, out);
    return true;
  } catch (const Error&) {
    out.resize(begin);
    return false;
  }
}

std::string row_text(const std::string& key, const TensorValue& tensor, std::int64_t row,
                     const Style& style) {
  std::string text;
  write_row(key, tensor, static_cast<std::size_t>(row) * width_of(tensor), style, text);
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
    Column column{.width = width_of(tensor)};
    // Without a label where the name is no text, for which fields are asked to throw.
    if (append_quoted(key, column.label)) column.label += ": ";
    if (!column.label.empty() && has_equal_rows(tensor, column.width)) {
      column.is_constant = append_row(key, tensor, column.label);
    }
    columns_.push_back(std::move(column));
  }
  size_ = size.value_or(0);
}

std::vector<std::string> Predictions::keys() const {
  std::vector<std::string> keys;
  for (const auto& row : outputs_) keys.push_back(row.first);
  return keys;
}

void Predictions::append_fields(std::int64_t row, std::string& out) const {
  auto column = columns_.begin();
  for (const auto& [key, tensor] : outputs_) {
    if (column != columns_.begin()) out += ", ";
    if (column->label.empty()) write_json_quoted(key, out);
    out += column->label;
    if (!column->is_constant) {
      write_row(key, tensor, static_cast<std::size_t>(row) * column->width, kJson, out);
    }
    ++column;
  }
}

std::string Predictions::json(std::int64_t row) const {
  std::string text;
  text.reserve(kMostUsualBytes);
  text += '{';
  append_fields(row, text);
  text += '}';
  return text;
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
