#include "muster/serving/codec/instances.h"

#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/serving/codec/json.h"
#include "muster/serving/codec/json_tensor_internal.h"
#include "muster/serving/codec/row_default_internal.h"

namespace muster::serving {
namespace {

using graph::SignatureDef;
using graph::TensorInfo;
using nlohmann::json;

template <typename Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& row : map) keys.push_back(row.first);
  return keys;
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(fmt::format("'{}'", key));
  return keys;
}

std::vector<std::string_view> instance_lines(std::string_view text) {
  const auto lines = lines_of(without_byte_order_mark(text));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) {
      throw InvalidArgument("Empty line is not allowed in the instances file. It is line {}.",
                            i + 1);
    }
  }
  if (lines.empty()) throw InvalidArgument("No valid instance was found in input file.");
  return lines;
}

// The values of one input, an instance each; absent ones are nullptr.
using Column = std::vector<const json*>;
using Columns = std::map<std::string, Column, std::less<>>;

// A bare value or {name: value}.
const json& single_input(const json& instance, const std::string& name, bool is_string) {
  const bool is_value = !instance.is_object() || special_number(instance) != nullptr ||
                        (is_string && base64_text(instance) != nullptr);
  const auto found = instance.is_object() ? instance.find(name) : instance.end();
  const bool is_named = instance.is_object() && found != instance.end() && instance.size() == 1;
  if (is_named) return *found;
  if (is_value) return instance;
  throw InvalidArgument("Expected tensor name: {}, got tensor name: [{}].", name,
                        fmt::join(keys_of(instance), ", "));
}

void take_named_inputs(const json& instance, std::size_t row, Columns& columns) {
  if (!instance.is_object()) {
    throw InvalidArgument(
        "The signature has {} inputs ({}), so an instance is an object that names them, but "
        "there is {}",
        columns.size(), fmt::join(keys_of(columns), ", "), describe(instance));
  }
  for (const auto& [key, value] : instance.items()) {
    const auto column = columns.find(key);
    if (column == columns.end()) {
      throw InvalidArgument("Unexpected tensor name: {}. The signature has: {}", key,
                            fmt::join(keys_of(columns), ", "));
    }
    column->second[row] = &value;
  }
}

Columns columns_of(const std::vector<json>& instances, const SignatureDef& signature) {
  Columns columns;
  for (const auto& row : signature.inputs) columns[row.first] = Column(instances.size());
  for (std::size_t i = 0; i < instances.size(); ++i) {
    try {
      if (columns.size() != 1) {
        take_named_inputs(instances[i], i, columns);
        continue;
      }
      auto& [name, column] = *columns.begin();
      const auto type = graph::without_ref(signature.inputs.begin()->second.dtype);
      column[i] = &single_input(instances[i], name, type == graph::DataType::kString);
    } catch (Error& error) {
      error.add_context(fmt::format("instance {}", i + 1));
      throw;
    }
  }
  return columns;
}

void check_present(const std::string& name, const Column& column) {
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (column[i] != nullptr) continue;
    throw InvalidArgument(
        "Input {} was missing in at least one input instance. The first is instance {}.", name,
        i + 1);
  }
}

// Checks the first instance before it is converted; the others are compared with it.
void check_shape(const TensorInfo& info, const Column& column) {
  std::vector<std::int64_t> shape = list_shape(*column.front());
  const graph::Shape row(shape);
  shape.insert(shape.begin(), static_cast<std::int64_t>(column.size()));
  if (graph::fits(info.shape, shape)) return;
  check_first_element(info.dtype, *column.front());
  throw InvalidArgument(
      "the input is {} {}, one row an instance, but {} instance{} like the first, whose shape is "
      "{}, make{} {}",
      name_of(info.dtype), to_string(info.shape), column.size(), column.size() == 1 ? "" : "s",
      to_string(row), column.size() == 1 ? "s" : "", to_string(graph::Shape(shape)));
}

graph::TensorValue tensor_of(const TensorInfo& info, const Column& column) {
  TensorBuilder builder(info.dtype);
  check_shape(info, column);
  for (std::size_t i = 0; i < column.size(); ++i) {
    try {
      builder.add(*column[i]);
    } catch (Error& error) {
      error.add_context(fmt::format("instance {}", i + 1));
      throw;
    }
  }
  return std::move(builder).stacked();
}

void fill_up(Column& column, const json& value) {
  for (const json*& held : column) {
    if (held == nullptr || held->is_null()) held = &value;
  }
}

bool is_absent(const Column& column) {
  for (const json* value : column) {
    if (value != nullptr) return false;
  }
  return true;
}

}  // namespace

struct Instances::Impl {
  std::vector<json> values{};
  std::string signature_name{};
};

Instances::Instances(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Instances::~Instances() = default;
Instances::Instances(Instances&&) noexcept = default;
Instances& Instances::operator=(Instances&&) noexcept = default;

Instances Instances::from_json_lines(std::string_view text) {
  auto impl = std::make_unique<Impl>();
  std::size_t number = 0;
  for (const std::string_view line : instance_lines(text)) {
    ++number;
    try {
      impl->values.push_back(parse_json(line));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument("Input instances are not in JSON format: line {}: {}", number,
                            error.message());
    }
  }
  return Instances(std::move(impl));
}

Instances Instances::from_text_lines(std::string_view text) {
  auto impl = std::make_unique<Impl>();
  for (const std::string_view line : instance_lines(text)) impl->values.emplace_back(line);
  return Instances(std::move(impl));
}

Instances Instances::from_request(std::string_view text) {
  auto impl = std::make_unique<Impl>();
  json request;
  try {
    request = parse_json(without_byte_order_mark(text));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("Invalid JSON request: {}", error.message());
  }
  if (!request.is_object() || !request.contains("instances")) {
    throw InvalidArgument("Invalid JSON request: missing \"instances\" attribute");
  }
  json& instances = request["instances"];
  if (!instances.is_array()) {
    throw InvalidArgument("Invalid JSON request: \"instances\" must be a list");
  }
  if (instances.empty()) throw InvalidArgument("Invalid JSON request: \"instances\" is empty");
  for (json& value : instances) impl->values.push_back(std::move(value));
  const auto name = request.find("signature_name");
  if (name != request.end()) {
    if (!name->is_string()) {
      throw InvalidArgument("Invalid JSON request: \"signature_name\" must be a string");
    }
    impl->signature_name = name->get<std::string>();
  }
  return Instances(std::move(impl));
}

std::size_t Instances::size() const { return impl_->values.size(); }
const std::string& Instances::signature_name() const { return impl_->signature_name; }

Tensors Instances::tensors(const SignatureDef& signature) const {
  Columns columns = columns_of(impl_->values, signature);
  const auto defaults = row_defaults(signature, impl_->values.size());
  Tensors tensors;
  for (const auto& [name, info] : signature.inputs) {
    Column& column = columns.find(name)->second;
    const auto row = defaults.find(name);
    if (row != defaults.end()) fill_up(column, row->second);
    const auto value = signature.defaults.find(name);
    if (value != signature.defaults.end() && is_absent(column)) {
      tensors.emplace(name, value->second);
      continue;
    }
    check_present(name, column);
    try {
      tensors.emplace(name, tensor_of(info, column));
    } catch (Error& error) {
      error.add_context(fmt::format("input {}", name));
      throw;
    }
  }
  return tensors;
}

}  // namespace muster::serving
