#include "muster/serving/protocols/open_inference/inference_words.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "muster/base/error.h"
#include "muster/serving/codec/json.h"

namespace muster::serving::oip {
namespace {

using graph::DataType;
using graph::TensorValue;

struct TypeName {
  DataType type;
  std::string_view name;
};

constexpr TypeName kTypeNames[] = {
    {DataType::kBool, "BOOL"},     {DataType::kUint8, "UINT8"},   {DataType::kUint16, "UINT16"},
    {DataType::kUint32, "UINT32"}, {DataType::kUint64, "UINT64"}, {DataType::kInt8, "INT8"},
    {DataType::kInt16, "INT16"},   {DataType::kInt32, "INT32"},   {DataType::kInt64, "INT64"},
    {DataType::kHalf, "FP16"},     {DataType::kFloat, "FP32"},    {DataType::kDouble, "FP64"},
    {DataType::kBfloat16, "BF16"}, {DataType::kString, "BYTES"},
};

// Larger requests are refused by their size long before.
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

std::vector<std::string> names_in(const Tensors& tensors) {
  std::vector<std::string> names;
  for (const auto& row : tensors) names.push_back("'" + row.first + "'");
  return names;
}

std::string_view repository_state(VersionState state) {
  switch (state) {
    case VersionState::kStart:
    case VersionState::kLoading:
      return "LOADING";
    case VersionState::kAvailable:
      return "READY";
    case VersionState::kUnloading:
      return "UNLOADING";
    default:
      return "UNAVAILABLE";
  }
}

std::vector<VersionStatus> status_or_none(ModelStore& store, const std::string& model) {
  try {
    return store.status(model);
  } catch (const NotFound&) {
    return {};
  }
}

TensorValue strings_from_raw(const TensorHeader& header, EmptyTensor empty, std::string_view bytes,
                             std::string_view model) {
  // Each string takes four bytes at least, so a count that is too large is found before it costs.
  while (!bytes.empty()) {
    std::uint32_t size = 0;
    if (bytes.size() < sizeof size) {
      throw InvalidArgument(
          "incomplete string length indicator for inference input '{}' for model '{}', expecting "
          "{} "
          "bytes but only {} bytes available",
          header.name, model, sizeof size, bytes.size());
    }
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    if (bytes.size() < size) {
      throw InvalidArgument(
          "incomplete string data for inference input '{}' for model '{}', expecting string of "
          "length {} but only {} bytes available",
          header.name, model, size, bytes.size());
    }
    if (static_cast<std::int64_t>(empty.tensor.strings.size()) == empty.elements) {
      throw InvalidArgument(
          "unexpected number of string elements {} for inference input '{}' for "
          "model '{}', expecting {}",
          empty.elements + 1, header.name, model, empty.elements);
    }
    empty.tensor.strings.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  if (static_cast<std::int64_t>(empty.tensor.strings.size()) != empty.elements) {
    throw InvalidArgument(
        "unexpected number of string elements {} for inference input '{}' for model '{}', "
        "expecting {}",
        empty.tensor.strings.size(), header.name, model, empty.elements);
  }
  return std::move(empty.tensor);
}

}  // namespace

std::string_view datatype_of(DataType type) {
  for (const TypeName& row : kTypeNames) {
    if (row.type == graph::without_ref(type)) return row.name;
  }
  return {};
}

std::vector<std::int64_t> shape_of(const graph::TensorInfo& info) {
  return info.shape.unknown_rank ? std::vector<std::int64_t>{-1} : info.shape.dims;
}

std::optional<DataType> type_named(std::string_view name) {
  for (const TypeName& row : kTypeNames) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::string raw_bytes(const TensorValue& tensor) {
  if (tensor.dtype != DataType::kString) return tensor.bytes;
  std::string out;
  for (const std::string& text : tensor.strings) {
    const auto size = static_cast<std::uint32_t>(text.size());
    out.append(reinterpret_cast<const char*>(&size), sizeof size);
    out += text;
  }
  return out;
}

EmptyTensor empty_tensor(const TensorHeader& header, std::string_view model) {
  const auto type = type_named(header.datatype);
  if (!type) {
    throw InvalidArgument("inference input '{}' for model '{}' has the unknown data-type '{}'",
                          header.name, model, header.datatype);
  }
  const auto count = graph::element_count(header.shape);
  if (!count || *count > kMostElements) {
    throw InvalidArgument("inference input '{}' for model '{}' cannot have the shape [{}]",
                          header.name, model, fmt::join(header.shape, ","));
  }
  return {{.dtype = *type, .shape = header.shape}, *count};
}

TensorValue tensor_from_raw(const TensorHeader& header, std::string_view bytes,
                            std::string_view model) {
  EmptyTensor empty = empty_tensor(header, model);
  if (empty.tensor.dtype == DataType::kString) {
    return strings_from_raw(header, std::move(empty), bytes, model);
  }
  const auto expected =
      static_cast<std::size_t>(empty.elements) * graph::element_bytes(empty.tensor.dtype);
  if (bytes.size() != expected) {
    throw InvalidArgument(
        "input byte size mismatch for input '{}' for model '{}'. Expected {}, got {}", header.name,
        model, expected, bytes.size());
  }
  empty.tensor.bytes = bytes;
  return std::move(empty.tensor);
}

void check_inputs(const std::string& model, const graph::SignatureDef& signature,
                  const Tensors& inputs) {
  for (const auto& [name, tensor] : inputs) {
    const auto info = signature.inputs.find(name);
    if (info == signature.inputs.end()) {
      throw InvalidArgument("unexpected inference input '{}' for model '{}'", name, model);
    }
    const auto expected = datatype_of(info->second.dtype);
    if (graph::without_ref(info->second.dtype) != tensor.dtype) {
      throw InvalidArgument("inference input '{}' data-type is '{}', but model '{}' expects '{}'",
                            name, datatype_of(tensor.dtype), model, expected);
    }
    if (!graph::fits(info->second.shape, tensor.shape)) {
      throw InvalidArgument(
          "unexpected shape for input '{}' for model '{}'. Expected [{}], got [{}]. ", name, model,
          fmt::join(info->second.shape.dims, ","), fmt::join(tensor.shape, ","));
    }
  }
  std::vector<std::string> missing;
  for (const auto& row : signature.inputs) {
    if (!inputs.contains(row.first) && !signature.defaults.contains(row.first)) {
      missing.push_back("'" + row.first + "'");
    }
  }
  if (missing.empty()) return;
  throw InvalidArgument(
      "expected {} inputs but got {} inputs for model '{}'. Got input(s) [{}], but missing "
      "required "
      "input(s) [{}]. Please provide all required input(s).",
      signature.inputs.size(), inputs.size(), model, fmt::join(names_in(inputs), ", "),
      fmt::join(missing, ", "));
}

void select_outputs(const std::string& model, const std::vector<std::string>& wanted,
                    Tensors& outputs) {
  if (wanted.empty()) return;
  for (const std::string& name : wanted) {
    if (!outputs.contains(name)) {
      throw InvalidArgument("unexpected inference output '{}' for model '{}'", name, model);
    }
  }
  const std::set<std::string_view> names(wanted.begin(), wanted.end());
  erase_if(outputs, [&](const auto& row) { return !names.contains(row.first); });
}

namespace {

// Labels, shares, and which of the versions of a model is its default: the newest that answers
// unless one is configured.
void name_versions(const ModelConfig& config, std::span<IndexEntry> versions) {
  const auto is_available = [](const IndexEntry& one) {
    return one.state == repository_state(VersionState::kAvailable);
  };
  const Answers answers = [&](std::int64_t number) {
    return std::ranges::any_of(versions, [&](const IndexEntry& one) {
      return is_available(one) && one.version == std::to_string(number);
    });
  };
  std::map<std::string, double> shares;
  for (const auto& [number, share] : shares_of(config, answers)) {
    shares.emplace(std::to_string(number), share);
  }
  const auto newest = std::ranges::find_if(versions, is_available);
  for (auto one = versions.begin(); one != versions.end(); ++one) {
    for (const auto& [label, number] : config.labels) {
      if (std::to_string(number) == one->version) one->labels.push_back(label);
    }
    one->is_default = config.default_version
                          ? std::to_string(*config.default_version) == one->version
                          : one == newest;
    if (!shares.empty()) one->share = shares[one->version];
  }
}

}  // namespace

std::vector<IndexEntry> repository_index(Service& service, bool only_ready) {
  std::vector<IndexEntry> list;
  const std::vector<ModelConfig> configs = service.store().models();
  for (const std::string& model : service.known_models()) {
    const std::size_t first = list.size();
    const auto versions = status_or_none(service.store(), model);
    if (versions.empty() && !only_ready) list.push_back({model, "", "UNAVAILABLE", "unloaded"});
    for (const VersionStatus& one : versions) {
      if (only_ready && one.state != VersionState::kAvailable) continue;
      list.push_back({model, std::to_string(one.number), repository_state(one.state), one.message});
    }
    const auto config = std::ranges::find(configs, model, &ModelConfig::name);
    if (config == configs.end()) continue;
    name_versions(*config, std::span(list).subspan(first));
  }
  return list;
}

void check_load_parameter(std::string_view model, std::string_view name, std::string_view value) {
  if (name.starts_with("file:")) {
    throw Unimplemented(
        "failed to load '{}': files of a model cannot be sent; put them into its folder", model);
  }
  if (name != "config") return;
  nlohmann::json config;
  try {
    config = serving::parse_json(value);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("failed to load '{}': the parameter config is no JSON: {}", model,
                          error.message());
  }
  if (!config.is_object()) {
    throw InvalidArgument("failed to load '{}': the parameter config must be a JSON object, not {}",
                          model, serving::shown_json(config));
  }
  if (!config.empty()) {
    throw Unimplemented(
        "failed to load '{}': this server has no model configuration that config could override; "
        "load it without {}",
        model, serving::shown_json(config));
  }
}

std::uint16_t half_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  // At and beyond 65520 the nearest is infinity.
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {
    // Below the smallest normal half: as a multiple of 2^-24, rounded by the addition.
    const float scaled = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(scaled) - 0x3F000000U));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  const std::uint32_t rounded = magnitude + 0xFFFU + odd - 0x38000000U;
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

}  // namespace muster::serving::oip
