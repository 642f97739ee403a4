#include "muster/serving/codec/json_tensor.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/serving/codec/json.h"
#include "muster/serving/codec/json_tensor_internal.h"
#include "muster/serving/codec/put_element.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;
using nlohmann::json;

constexpr std::size_t kMostDimensions = 32;

struct TensorReader {
  template <typename T>
  static void put_float(const json& value, TensorValue& out) {
    if (const auto special = special_double(value)) {
      return append_number(static_cast<T>(*special), out);
    }
    if (!value.is_number()) {
      throw InvalidArgument("a number was expected, but there is {}", describe(value));
    }
    const auto number = value.get<double>();
    if (std::abs(number) > static_cast<double>(std::numeric_limits<T>::max())) {
      throw InvalidArgument("{} is too large for {}", describe(value), name_of(out.dtype));
    }
    append_number(static_cast<T>(number), out);
  }

  template <typename T>
  static void put_integer(const json& value, TensorValue& out) {
    if (!value.is_number_integer()) {
      throw InvalidArgument("a whole number was expected, but there is {}", describe(value));
    }
    const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                 : std::in_range<T>(value.get<std::int64_t>());
    if (!fits) throw InvalidArgument("{} does not fit {}", describe(value), name_of(out.dtype));
    append_number(value.get<T>(), out);
  }

  static void put_bool(const json& value, TensorValue& out) {
    if (!value.is_boolean()) {
      throw InvalidArgument("true or false was expected, but there is {}", describe(value));
    }
    out.bytes.push_back(value.get<bool>() ? '\1' : '\0');
  }

  static void put_string(const json& value, TensorValue& out) {
    if (const std::string* text = base64_text(value)) {
      out.strings.push_back(base64_decode(*text));
    } else if (value.is_string()) {
      out.strings.push_back(value.get_ref<const std::string&>());
    } else {
      throw InvalidArgument("a string or {{\"b64\": \"...\"}} was expected, but there is {}",
                            describe(value));
    }
  }
};

using AppendElement = void (*)(const json& value, TensorValue& out);

AppendElement append_element_of(DataType type) {
  if (const AppendElement put = put_of<TensorReader>(type)) return put;
  throw Unimplemented("inputs of type {} cannot be given as JSON", name_of(type));
}

}  // namespace

std::vector<std::int64_t> list_shape(const json& value) {
  std::vector<std::int64_t> shape;
  const json* part = &value;
  while (part->is_array()) {
    if (shape.size() == kMostDimensions) {
      throw InvalidArgument("lists in lists go deeper than {}", kMostDimensions);
    }
    shape.push_back(static_cast<std::int64_t>(part->size()));
    if (part->empty()) break;
    part = &part->front();
  }
  return shape;
}

void check_first_element(DataType type, const json& value) {
  const json* part = &value;
  while (part->is_array() && !part->empty()) part = &part->front();
  if (part->is_array()) return;
  TensorValue unused{.dtype = graph::without_ref(type)};
  try {
    append_element_of(unused.dtype)(*part, unused);
  } catch (Error& error) {
    error.add_context(fmt::format("the input is of type {}", name_of(unused.dtype)));
    throw;
  }
}

TensorBuilder::TensorBuilder(DataType type)
    : append_element_(append_element_of(graph::without_ref(type))) {
  tensor_.dtype = graph::without_ref(type);
}

void TensorBuilder::add(const json& value) {
  if (parts_ == 0) shape_ = list_shape(value);
  append(value, 0);
  ++parts_;
}

void TensorBuilder::append(const json& value, std::size_t depth) {
  if (depth == shape_.size()) return append_element_(value, tensor_);
  if (!value.is_array()) {
    throw InvalidArgument("a list of {} was expected, but there is {}", shape_[depth],
                          describe(value));
  }
  if (static_cast<std::int64_t>(value.size()) != shape_[depth]) {
    throw InvalidArgument("a list of {} was expected, but there is one of {}", shape_[depth],
                          value.size());
  }
  for (const json& part : value) append(part, depth + 1);
}

TensorValue TensorBuilder::stacked() && {
  tensor_.shape = shape_;
  tensor_.shape.insert(tensor_.shape.begin(), parts_);
  return std::move(tensor_);
}

TensorValue TensorBuilder::single() && {
  tensor_.shape = shape_;
  return std::move(tensor_);
}

TensorValue tensor_from_json(std::string_view text, const graph::TensorInfo& info) {
  const json value = parse_json(text);
  TensorBuilder builder(info.dtype);
  const std::vector<std::int64_t> shape = list_shape(value);
  if (!graph::fits(info.shape, shape)) {
    check_first_element(info.dtype, value);
    throw InvalidArgument("the input must be {} {}, but the value has the shape {}",
                          name_of(info.dtype), to_string(info.shape),
                          to_string(graph::Shape(shape)));
  }
  builder.add(value);
  return std::move(builder).single();
}

}  // namespace muster::serving
