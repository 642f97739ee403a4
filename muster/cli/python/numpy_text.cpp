#include "muster/cli/python/numpy_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"

// Rules and constants are those of numpy's arrayprint with its default print options.

namespace muster::python {
namespace {

using graph::DataType;
using graph::TensorValue;

constexpr std::size_t kLineWidth = 75;
constexpr std::int64_t kThreshold = 1000;
constexpr std::int64_t kEdgeItems = 3;
constexpr std::size_t kPrecision = 8;

/// Writes the element at this place of the tensor, padded as its column wants it.
using Format = std::function<std::string(std::size_t index)>;

/// A number of 16 bits: 1 of sign, 5 of exponent, 10 of digits.
struct Half {
  std::uint16_t bits = 0;

  float value() const {
    const int exponent = bits >> 10 & 0x1F;
    const int fraction = bits & 0x3FF;
    float size = std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction + 0x400),
                            std::max(exponent, 1) - 25);
    if (exponent == 0x1F) {
      size = fraction == 0 ? std::numeric_limits<float>::infinity()
                           : std::numeric_limits<float>::quiet_NaN();
    }
    return (bits & 0x8000) != 0 ? -size : size;
  }
};

float wide(Half value) { return value.value(); }
float wide(float value) { return value; }
double wide(double value) { return value; }

template <typename T>
T element(const TensorValue& tensor, std::size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof value, sizeof value);
  return value;
}

template <typename T>
std::string digits(T value, std::chars_format format, int precision = -1) {
  char buffer[512];
  const auto end = precision < 0
                       ? std::to_chars(buffer, buffer + sizeof buffer, value, format)
                       : std::to_chars(buffer, buffer + sizeof buffer, value, format, precision);
  return {buffer, end.ptr};
}

/// The parts of "-1.25e-07"; the exponent has its sign and is empty in fixed notation.
struct Parts {
  std::string whole;
  std::string fraction;
  std::string exponent;
};

Parts split(const std::string& text) {
  const std::size_t e = text.find('e');
  const std::string mantissa = text.substr(0, e);
  const std::size_t point = mantissa.find('.');
  return {mantissa.substr(0, point), point == mantissa.npos ? "" : mantissa.substr(point + 1),
          e == text.npos ? "" : text.substr(e + 1)};
}

// "1.25e-07" without an exponent: zeros stand after the digits up to the point.
std::string fixed_digits(const std::string& scientific) {
  const Parts parts = split(scientific);
  const int exponent = std::stoi(parts.exponent);
  const std::string sign = parts.whole.starts_with('-') ? "-" : "";
  const std::string all = parts.whole.substr(sign.size()) + parts.fraction;
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent) - 1, '0') + all;
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (all.size() <= whole) return sign + all + std::string(whole - all.size(), '0');
  return sign + all.substr(0, whole) + '.' + all.substr(whole);
}

// Whether this number, rounded to 16 bits, is `value`: it lies nearer than half way to both
// neighbours, or half way and the last digit of `value` is even.
bool means(double number, Half value) {
  const auto size = static_cast<std::uint16_t>(value.bits & 0x7FFF);
  const auto neighbour = [](int bits) {
    // After the largest comes infinity, in whose place the next number would be.
    if (bits == 0x7C00) return 65536.0;
    return bits < 0 ? 0.0 : static_cast<double>(Half{static_cast<std::uint16_t>(bits)}.value());
  };
  const double below = (neighbour(size - 1) + neighbour(size)) / 2;
  const double above = (neighbour(size) + neighbour(size + 1)) / 2;
  const double found = std::abs(number);
  return size % 2 == 0 ? found >= below && found <= above : found > below && found < above;
}

// The digits of the number that the bits hold, as many as are asked for, or the fewest that mean no
// other number.
std::string digits(Half value, std::chars_format format, int precision = -1) {
  const float number = value.value();
  if (precision >= 0) return digits(number, format, precision);
  if (format == std::chars_format::fixed && number == std::trunc(number)) {
    return digits(number, format, 0);
  }
  std::string text;
  // Five digits tell all of them apart. The neighbour above a power of two is further away than the
  // one below, so that of two texts that are equally near the larger may be the one.
  const float up = std::nextafter(number, number * 2);
  for (int more = 0; more < 5; ++more) {
    for (const float near : {number, up}) {
      text = digits(near, std::chars_format::scientific, more);
      if (means(std::stod(text), value)) {
        return format == std::chars_format::fixed ? fixed_digits(text) : text;
      }
    }
  }
  throw Internal("five digits do not tell {} from its neighbours", number);
}

// The shortest digits that mean this value, cut to numpy's eight after the point.
template <typename T>
Parts parts_of(T value, bool scientific) {
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  Parts parts = split(digits(value, format));
  if (parts.fraction.size() <= kPrecision) return parts;
  parts = split(digits(value, format, static_cast<int>(kPrecision)));
  while (parts.fraction.ends_with('0')) parts.fraction.pop_back();
  return parts;
}

std::string padded_left(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

/// The widths that numbers of one array have in common.
struct FloatColumn {
  bool scientific = false;
  std::size_t left = 0;
  std::size_t right = 0;
  std::size_t exponent = 0;
};

// numpy divides in the numbers' own type, where 1000.25 of 16 bits is 1000.
bool is_beyond_1000(Half, double largest, double smallest) { return largest / smallest > 1000.25; }
template <typename T>
bool is_beyond_1000(T, T largest, T smallest) {
  return largest / smallest > T(1000);
}

template <typename T>
bool needs_exponents(const std::vector<T>& values) {
  using Wide = decltype(wide(T{}));
  Wide largest = 0;
  Wide smallest = 0;
  for (const T value : values) {
    const Wide size = std::abs(wide(value));
    if (!std::isfinite(size) || size == 0) continue;
    largest = std::max(largest, size);
    smallest = smallest == 0 ? size : std::min(smallest, size);
  }
  if (largest == 0) return false;
  // numpy compares floats with the double 0.0001: the float 0.0001 is less.
  return largest >= Wide(1e8) || static_cast<double>(smallest) < 0.0001 ||
         is_beyond_1000(T{}, largest, smallest);
}

template <typename T>
FloatColumn float_column(const std::vector<T>& values) {
  FloatColumn column;
  column.scientific = needs_exponents(values);
  bool special = false;
  bool negative_infinity = false;
  for (const T value : values) {
    if (!std::isfinite(wide(value))) {
      special = true;
      negative_infinity |= std::isinf(wide(value)) && wide(value) < 0;
      continue;
    }
    const Parts parts = parts_of(value, column.scientific);
    column.left = std::max(column.left, parts.whole.size());
    column.right = std::max(column.right, parts.fraction.size());
    if (column.scientific) column.exponent = std::max(column.exponent, parts.exponent.size() - 1);
  }
  if (special) {
    const std::size_t behind =
        (column.scientific ? column.exponent + 2 + column.right : column.right) + 1;
    const std::size_t word = negative_infinity ? 4 : 3;
    column.left = std::max(column.left, word - std::min(word, behind));
  }
  return column;
}

// All have as many digits as the longest; those beyond the shortest are the value's own, no zeros.
template <typename T>
std::string scientific_text(T value, const FloatColumn& column) {
  const Parts parts =
      split(digits(value, std::chars_format::scientific, static_cast<int>(column.right)));
  return padded_left(parts.whole, column.left) + '.' + parts.fraction + 'e' + parts.exponent[0] +
         std::string(column.exponent - (parts.exponent.size() - 1), '0') + parts.exponent.substr(1);
}

template <typename T>
std::string float_text(T value, const FloatColumn& column) {
  const std::size_t behind = column.scientific ? column.exponent + 2 + column.right : column.right;
  if (!std::isfinite(wide(value))) {
    const char* const word = std::isnan(wide(value)) ? "nan" : wide(value) < 0 ? "-inf" : "inf";
    return padded_left(word, column.left + behind + 1);
  }
  if (column.scientific) return scientific_text(value, column);
  const Parts parts = parts_of(value, false);
  return padded_left(parts.whole, column.left) + '.' + parts.fraction +
         std::string(column.right - parts.fraction.size(), ' ');
}

template <typename T>
Format float_format(const TensorValue& tensor, const std::vector<std::size_t>& shown) {
  std::vector<T> values;
  for (const std::size_t index : shown) values.push_back(element<T>(tensor, index));
  return [&tensor, column = float_column(values)](std::size_t index) {
    return float_text(element<T>(tensor, index), column);
  };
}

template <typename T>
Format integer_format(const TensorValue& tensor, const std::vector<std::size_t>& shown) {
  std::size_t width = 0;
  for (const std::size_t index : shown) {
    width = std::max(width, std::to_string(element<T>(tensor, index)).size());
  }
  return [&tensor, width](std::size_t index) {
    return padded_left(std::to_string(element<T>(tensor, index)), width);
  };
}

Format format_of(const TensorValue& tensor, const std::vector<std::size_t>& shown) {
  switch (tensor.dtype) {
    case DataType::kFloat:
      return float_format<float>(tensor, shown);
    case DataType::kDouble:
      return float_format<double>(tensor, shown);
    case DataType::kHalf:
      return float_format<Half>(tensor, shown);
    case DataType::kInt8:
      return integer_format<std::int8_t>(tensor, shown);
    case DataType::kInt16:
      return integer_format<std::int16_t>(tensor, shown);
    case DataType::kInt32:
      return integer_format<std::int32_t>(tensor, shown);
    case DataType::kInt64:
      return integer_format<std::int64_t>(tensor, shown);
    case DataType::kUint8:
      return integer_format<std::uint8_t>(tensor, shown);
    case DataType::kUint16:
      return integer_format<std::uint16_t>(tensor, shown);
    case DataType::kUint32:
      return integer_format<std::uint32_t>(tensor, shown);
    case DataType::kUint64:
      return integer_format<std::uint64_t>(tensor, shown);
    case DataType::kBool:
      return [&tensor](std::size_t index) -> std::string {
        return element<std::uint8_t>(tensor, index) != 0 ? " True" : "False";
      };
    case DataType::kString:
      return [&tensor](std::size_t index) { return python_bytes(tensor.strings[index]); };
    default:
      throw Unimplemented("tensors of type {} cannot be printed", name_of(tensor.dtype));
  }
}

/// Lays the elements of an array out in brackets.
class Layout {
 public:
  Layout(const TensorValue& tensor, std::int64_t count)
      : shape_(tensor.shape), strides_(shape_.size(), 1), summary_(count > kThreshold) {
    for (std::size_t axis = shape_.size(); axis-- > 1;) {
      strides_[axis - 1] = strides_[axis] * shape_[axis];
    }
    collect(0, 0);
    format_ = format_of(tensor, shown_);
  }

  std::string text() const { return text(0, 0, kLineWidth, " "); }

 private:
  static constexpr std::int64_t kDots = -1;

  // The places along an axis that are shown, with kDots for those that are skipped.
  std::vector<std::int64_t> places(std::size_t axis) const {
    const std::int64_t size = shape_[axis];
    const bool cut = summary_ && size > 2 * kEdgeItems;
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < size; ++i) {
      if (cut && i == kEdgeItems) {
        all.push_back(kDots);
        i = size - kEdgeItems;
      }
      all.push_back(i);
    }
    return all;
  }

  void collect(std::size_t axis, std::int64_t offset) {
    if (axis == shape_.size()) return shown_.push_back(static_cast<std::size_t>(offset));
    for (const std::int64_t place : places(axis)) {
      if (place != kDots) collect(axis + 1, offset + place * strides_[axis]);
    }
  }

  std::string text(std::size_t axis, std::int64_t offset, std::size_t width,
                   const std::string& indent) const {
    if (axis == shape_.size()) return format_(static_cast<std::size_t>(offset));
    return axis + 1 == shape_.size() ? row(offset, width, indent)
                                     : block(axis, offset, width, indent);
  }

  // The last axis: words in lines.
  std::string row(std::int64_t offset, std::size_t width, const std::string& indent) const {
    std::string done;
    std::string line = indent;
    for (const std::int64_t place : places(shape_.size() - 1)) {
      const std::string word =
          place == kDots ? "..." : format_(static_cast<std::size_t>(offset + place));
      if (line.size() > indent.size()) line += ' ';
      if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
        line.erase(line.find_last_not_of(' ') + 1);
        done += line + '\n';
        line = indent;
      }
      line += word;
    }
    return '[' + (done + line).substr(indent.size()) + ']';
  }

  // An axis before the last: blocks with lines between them.
  std::string block(std::size_t axis, std::int64_t offset, std::size_t width,
                    const std::string& indent) const {
    std::string all;
    for (const std::int64_t place : places(axis)) {
      if (!all.empty()) all += std::string(shape_.size() - axis - 1, '\n') + indent;
      all += place == kDots
                 ? "..."
                 : text(axis + 1, offset + place * strides_[axis], width - 1, indent + ' ');
    }
    return '[' + all + ']';
  }

  const std::vector<std::int64_t>& shape_;
  std::vector<std::int64_t> strides_;
  bool summary_;
  std::vector<std::size_t> shown_{};
  Format format_{};
};

// A single number, as Python prints it.
template <typename T>
std::string scalar_text(T value) {
  if (std::isnan(wide(value))) return "nan";
  if (std::isinf(wide(value))) return wide(value) < 0 ? "-inf" : "inf";
  const auto size = static_cast<double>(std::abs(wide(value)));
  if (size != 0 && (size < 1e-4 || size >= 1e16)) {
    return digits(value, std::chars_format::scientific);
  }
  // Unlike in an array, where the digits before the point are those of the number that the bits
  // hold.
  const std::string text = fixed_digits(digits(value, std::chars_format::scientific));
  return text.find('.') == text.npos ? text + ".0" : text;
}

std::string scalar_text(const TensorValue& tensor) {
  if (tensor.dtype == DataType::kFloat) return scalar_text(element<float>(tensor, 0));
  if (tensor.dtype == DataType::kDouble) return scalar_text(element<double>(tensor, 0));
  if (tensor.dtype == DataType::kHalf) return scalar_text(element<Half>(tensor, 0));
  const std::string text = format_of(tensor, {0})(0);
  return tensor.dtype == DataType::kBool && text == " True" ? "True" : text;
}

}  // namespace

std::string python_bytes(std::string_view bytes) {
  const char quote = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos ? '"' : '\'';
  std::string out = {'b', quote};
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (code < 0x20 || code >= 0x7F) {
      out += fmt::format("\\x{:02x}", code);
    } else {
      if (c == quote || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + quote;
}

std::string numpy_text(const TensorValue& tensor) {
  tensor.check();
  if (tensor.shape.empty()) return scalar_text(tensor);
  const std::int64_t count = graph::element_count(tensor.shape).value_or(0);
  return count == 0 ? "[]" : Layout(tensor, count).text();
}

}  // namespace muster::python
