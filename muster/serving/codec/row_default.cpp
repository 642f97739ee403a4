#include "muster/serving/codec/row_default_internal.h"

#include <span>
#include <vector>

#include "muster/base/error.h"

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

bool is_row_default(const graph::TensorInfo& info, const TensorValue& value) {
  if (info.shape.unknown_rank || info.shape.dims.empty() || info.shape.dims[0] != -1) return false;
  if (value.shape.empty() || value.shape[0] != 1 || !graph::fits(info.shape, value.shape))
    return false;
  for (const std::int64_t size : value.shape) {
    if (size <= 0) return false;
  }
  return has_elements_of_json(value.dtype) && graph::without_ref(info.dtype) == value.dtype;
}

}  // namespace

std::map<std::string, json, std::less<>> row_defaults(const graph::SignatureDef& signature) {
  std::map<std::string, json, std::less<>> rows;
  for (const auto& [name, value] : signature.defaults) {
    const auto input = signature.inputs.find(name);
    if (input == signature.inputs.end() || !is_row_default(input->second, value)) continue;
    value.check();
    rows.emplace(name, nested(elements_of(value), std::span(value.shape).subspan(1)));
  }
  return rows;
}

}  // namespace muster::serving
