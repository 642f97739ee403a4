#include "muster/serving/load/load_protocol.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/inference.pb.h"
#include "muster/serving.pb.h"
#include "muster/serving/codec/json.h"
#include "muster/serving/load/model_address_internal.h"
#include "muster/serving/protocols/open_inference/inference_words.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;
using graph::DataType;
using graph::SignatureDef;
using graph::TensorInfo;
using nlohmann::json;

constexpr std::array<std::pair<LoadProtocol, std::string_view>, 4> kProtocols{
    {{LoadProtocol::kRest, "rest"},
     {LoadProtocol::kGrpc, "grpc"},
     {LoadProtocol::kOipRest, "oip"},
     {LoadProtocol::kOipGrpc, "oip-grpc"}}};

[[noreturn]] void throw_no_metadata(const ModelAddress& model) {
  throw InvalidArgument(
      "the server's answer about model {} does not describe its inputs: it may not speak this "
      "protocol",
      model.name);
}

const json& member(const json& value, const char* name, const ModelAddress& model) {
  if (!value.is_object() || !value.contains(name)) throw_no_metadata(model);
  return value[name];
}

std::int64_t size_of(const json& value, const ModelAddress& model) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  std::int64_t size = 0;
  if (!value.is_string()) throw_no_metadata(model);
  const auto& text = value.get_ref<const std::string&>();
  if (std::from_chars(text.data(), text.data() + text.size(), size).ec != std::errc()) {
    throw_no_metadata(model);
  }
  return size;
}

graph::Shape shape_of(const json& shape, const ModelAddress& model) {
  if (!shape.is_object()) return graph::Shape::any();
  if (shape.contains("unknown_rank")) {
    const json& is_unknown = shape["unknown_rank"];
    if (!is_unknown.is_boolean()) throw_no_metadata(model);
    if (is_unknown.get<bool>()) return graph::Shape::any();
  }
  graph::Shape out;
  if (!shape.contains("dim") || !shape["dim"].is_array()) return out;
  for (const json& dim : shape["dim"])
    out.dims.push_back(size_of(member(dim, "size", model), model));
  return out;
}

[[noreturn]] void throw_no_signature(const ModelAddress& model,
                                     const std::vector<std::string>& names) {
  throw NotFound("model {} has no signature {}; it has {}", model.name, signature_of(model),
                 fmt::join(names, ", "));
}

SignatureDef signature_from_rest(const ModelAddress& model, std::string_view answer) {
  const json body = parse_json(answer);
  const json& all = member(member(member(body, "metadata", model), "signature_def", model),
                           "signature_def", model);
  const std::string name = signature_of(model);
  if (!all.is_object() || !all.contains(name)) {
    std::vector<std::string> names;
    for (const auto& row : all.items()) names.push_back(printable_line(row.key()));
    throw_no_signature(model, names);
  }
  const json& found = all[name];
  SignatureDef signature;
  for (const auto& row : member(found, "inputs", model).items()) {
    const json& type = member(row.value(), "dtype", model);
    TensorInfo info;
    if (type.is_string()) {
      info.dtype = graph::data_type_named(type.get<std::string>()).value_or(DataType::kInvalid);
    }
    info.shape = shape_of(member(row.value(), "tensor_shape", model), model);
    signature.inputs.emplace(row.key(), std::move(info));
  }
  return signature;
}

TensorInfo tensor_info(const muster::proto::TensorInfo& proto) {
  TensorInfo info{.dtype = graph::data_type_from(proto.dtype()).value_or(DataType::kInvalid)};
  if (proto.tensor_shape().unknown_rank()) info.shape = graph::Shape::any();
  for (const auto& dim : proto.tensor_shape().dim()) info.shape.dims.push_back(dim.size());
  return info;
}

SignatureDef signature_from_grpc(const ModelAddress& model, std::string_view answer) {
  wire::GetModelMetadataResponse response;
  wire::SignatureDefMap map;
  if (!response.ParseFromArray(answer.data(), static_cast<int>(answer.size())) ||
      !response.metadata().contains("signature_def") ||
      !response.metadata().at("signature_def").UnpackTo(&map)) {
    throw_no_metadata(model);
  }
  const auto found = map.signature_def().find(signature_of(model));
  if (found == map.signature_def().end()) {
    std::vector<std::string> names;
    for (const auto& row : map.signature_def()) names.push_back(printable_line(row.first));
    std::ranges::sort(names);
    throw_no_signature(model, names);
  }
  SignatureDef signature;
  for (const auto& row : found->second.inputs()) {
    signature.inputs.emplace(row.first, tensor_info(row.second));
  }
  return signature;
}

void add_oip_input(const std::string& name, const std::string& datatype,
                   std::vector<std::int64_t> shape, SignatureDef& signature) {
  TensorInfo info{.dtype = oip::type_named(datatype).value_or(DataType::kInvalid)};
  info.shape.dims = std::move(shape);
  signature.inputs.emplace(name, std::move(info));
}

SignatureDef signature_from_oip_rest(const ModelAddress& model, std::string_view answer) {
  const json body = parse_json(answer);
  const json& inputs = member(body, "inputs", model);
  if (!inputs.is_array()) throw_no_metadata(model);
  SignatureDef signature;
  for (const json& input : inputs) {
    const json& name = member(input, "name", model);
    const json& type = member(input, "datatype", model);
    const json& sizes = member(input, "shape", model);
    if (!name.is_string() || !type.is_string() || !sizes.is_array()) throw_no_metadata(model);
    std::vector<std::int64_t> shape;
    for (const json& size : sizes) shape.push_back(size_of(size, model));
    add_oip_input(name.get<std::string>(), type.get<std::string>(), std::move(shape), signature);
  }
  return signature;
}

SignatureDef signature_from_oip_grpc(const ModelAddress& model, std::string_view answer) {
  inference::ModelMetadataResponse response;
  if (!response.ParseFromArray(answer.data(), static_cast<int>(answer.size()))) {
    throw_no_metadata(model);
  }
  SignatureDef signature;
  for (const auto& input : response.inputs()) {
    add_oip_input(input.name(), input.datatype(), {input.shape().begin(), input.shape().end()},
                  signature);
  }
  return signature;
}

}  // namespace

std::string_view name_of(LoadProtocol protocol) {
  return kProtocols[static_cast<std::size_t>(protocol)].second;
}

LoadProtocol load_protocol_named(std::string_view name) {
  for (const auto& [protocol, word] : kProtocols) {
    if (word == name) return protocol;
  }
  throw InvalidArgument("the protocol must be rest, grpc, oip or oip-grpc: {}", name);
}

bool is_grpc(LoadProtocol protocol) {
  return protocol == LoadProtocol::kGrpc || protocol == LoadProtocol::kOipGrpc;
}

PreparedRequest metadata_request(LoadProtocol protocol, const ModelAddress& model) {
  switch (protocol) {
    case LoadProtocol::kRest:
      return {.method = "GET", .path = model_path(protocol, model) + "/metadata"};
    case LoadProtocol::kOipRest:
      return {.method = "GET", .path = model_path(protocol, model)};
    case LoadProtocol::kGrpc: {
      wire::GetModelMetadataRequest request;
      set_spec(model, *request.mutable_model_spec());
      request.add_metadata_field("signature_def");
      return {.path = "/tensorflow.serving.PredictionService/GetModelMetadata",
              .body = request.SerializeAsString()};
    }
    default: {
      inference::ModelMetadataRequest request;
      request.set_name(model.name);
      request.set_version(model.version);
      return {.path = "/inference.GRPCInferenceService/ModelMetadata",
              .body = request.SerializeAsString()};
    }
  }
}

SignatureDef signature_from_metadata(LoadProtocol protocol, const ModelAddress& model,
                                     std::string_view answer) {
  switch (protocol) {
    case LoadProtocol::kRest:
      return signature_from_rest(model, answer);
    case LoadProtocol::kGrpc:
      return signature_from_grpc(model, answer);
    case LoadProtocol::kOipRest:
      return signature_from_oip_rest(model, answer);
    default:
      return signature_from_oip_grpc(model, answer);
  }
}

}  // namespace muster::serving
