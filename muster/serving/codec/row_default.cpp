#include "muster/serving/codec/row_default_internal.h"

#include <algorithm>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/serving/codec/signature_defaults.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;
using nlohmann::json;

template <typename T>
std::vector<json> numbers_of(const TensorValue& value) {
  const auto values = value.values<T>();
  return {values.begin(), values.end()};
}

bool has_elements_of_json(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kInt32 ||
         type == DataType::kInt64 || type == DataType::kString;
}

std::vector<json> elements_of(const TensorValue& value) {
  switch (value.dtype) {
    case DataType::kFloat:
      return numbers_of<float>(value);
    case DataType::kDouble:
      return numbers_of<double>(value);
    case DataType::kInt32:
      return numbers_of<std::int32_t>(value);
    case DataType::kInt64:
      return numbers_of<std::int64_t>(value);
    default:
      return {value.strings.begin(), value.strings.end()};
  }
}

// Lists within lists, as instances have them.
json nested(std::span<const json> elements, std::span<const std::int64_t> shape) {
  if (shape.empty()) return elements.front();
  json list = json::array();
  const auto parts = static_cast<std::size_t>(shape.front());
  const std::size_t each = elements.size() / parts;
  for (std::size_t i = 0; i < parts; ++i) {
    list.push_back(nested(elements.subspan(i * each, each), shape.subspan(1)));
  }
  return list;
}

bool can_be_json(const TensorValue& value) {
  return has_elements_of_json(value.dtype) &&
         std::ranges::all_of(value.shape, [](std::int64_t size) { return size > 0; });
}

}  // namespace

std::map<std::string, json, std::less<>> row_defaults(const graph::SignatureDef& signature,
                                                      std::size_t instances) {
  std::map<std::string, json, std::less<>> rows;
  for (const auto& [name, value] : signature.defaults) {
    const auto input = signature.inputs.find(name);
    if (input == signature.inputs.end() || !is_row_default(input->second, value)) continue;
    if (!can_be_json(value)) continue;
    value.check();
    check_default_bytes(name, value, static_cast<std::int64_t>(instances));
    rows.emplace(name, nested(elements_of(value), std::span(value.shape).subspan(1)));
  }
  return rows;
}

}  // namespace muster::serving
