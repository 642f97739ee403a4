#include "muster/serving/protocols/open_inference/infer_json_internal.h"

#include <fmt/core.h>

#include <charconv>
#include <utility>

#include "muster/base/error.h"
#include "muster/serving/codec/json.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/protocols/open_inference/inference_words.h"

namespace muster::serving::oip {
namespace {

using graph::DataType;
using graph::TensorValue;
using nlohmann::json;
using ordered = nlohmann::ordered_json;

template <typename T>
void put_number(T value, TensorValue& out) {
  out.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
void put_whole(const json& value, const TensorHeader& header, TensorValue& out) {
  const bool fits = value.is_number_integer() &&
                    (value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                : std::in_range<T>(value.get<std::int64_t>()));
  if (!fits) {
    throw InvalidArgument("Unable to parse 'data': {} is no {} for input '{}'",
                          serving::shown_json(value), header.datatype, header.name);
  }
  put_number(value.get<T>(), out);
}

double real_number(const json& value, const TensorHeader& header) {
  if (const auto special = serving::special_double(value)) return *special;
  if (!value.is_number()) {
    throw InvalidArgument("Unable to parse 'data': {} is no {} for input '{}'",
                          serving::shown_json(value), header.datatype, header.name);
  }
  return value.get<double>();
}

void put_element(const json& value, const TensorHeader& header, TensorValue& out) {
  switch (out.dtype) {
    case DataType::kFloat:
      return put_number(static_cast<float>(real_number(value, header)), out);
    case DataType::kDouble:
      return put_number(real_number(value, header), out);
    case DataType::kHalf:
      return put_number(half_bits(static_cast<float>(real_number(value, header))), out);
    case DataType::kInt8:
      return put_whole<std::int8_t>(value, header, out);
    case DataType::kInt16:
      return put_whole<std::int16_t>(value, header, out);
    case DataType::kInt32:
      return put_whole<std::int32_t>(value, header, out);
    case DataType::kInt64:
      return put_whole<std::int64_t>(value, header, out);
    case DataType::kUint8:
      return put_whole<std::uint8_t>(value, header, out);
    case DataType::kUint16:
      return put_whole<std::uint16_t>(value, header, out);
    case DataType::kUint32:
      return put_whole<std::uint32_t>(value, header, out);
    case DataType::kUint64:
      return put_whole<std::uint64_t>(value, header, out);
    case DataType::kBool:
      if (!value.is_boolean()) break;
      out.bytes.push_back(value.get<bool>() ? '\1' : '\0');
      return;
    case DataType::kString:
      if (!value.is_string()) break;
      out.strings.push_back(value.get_ref<const std::string&>());
      return;
    default:
      throw InvalidArgument(
          "receiving {} data via JSON is not supported. Please use the binary data format for "
          "input "
          "{}",
          header.datatype, header.name);
  }
  throw InvalidArgument("Unable to parse 'data': {} is no {} for input '{}'",
                        serving::shown_json(value), header.datatype, header.name);
}

// Nested or flat, row-major. No more elements are taken than the shape has.
void put_elements(const json& value, const TensorHeader& header, std::int64_t& left,
                  TensorValue& out) {
  if (value.is_array()) {
    for (const json& part : value) put_elements(part, header, left, out);
    return;
  }
  if (left-- == 0) {
    throw InvalidArgument(
        "Unable to parse 'data': Shape does not match true shape of 'data' field");
  }
  put_element(value, header, out);
}

const json& member(const json& object, const char* key, const char* what) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) {
    throw InvalidArgument("{} has no '{}'", what, key);
  }
  return *found;
}

const std::string& text_member(const json& object, const char* key, const char* what) {
  const json& value = member(object, key, what);
  if (!value.is_string()) throw InvalidArgument("'{}' of {} must be a string", key, what);
  return value.get_ref<const std::string&>();
}

TensorHeader header_of(const json& input) {
  TensorHeader header{.name = text_member(input, "name", "an input"),
                      .datatype = text_member(input, "datatype", "an input")};
  const json& shape = member(input, "shape", "an input");
  if (!shape.is_array()) throw InvalidArgument("'shape' of input '{}' must be a list", header.name);
  for (const json& size : shape) {
    if (!size.is_number_integer() ||
        (size.is_number_unsigned() && !std::in_range<std::int64_t>(size.get<std::uint64_t>()))) {
      throw InvalidArgument("'shape' of input '{}' must hold whole numbers", header.name);
    }
    header.shape.push_back(size.get<std::int64_t>());
  }
  return header;
}

std::string flat_json(const TensorValue& tensor) {
  TensorValue flat = tensor;
  flat.shape = {*graph::element_count(tensor.shape)};
  return serving::tensor_json(flat, false);
}

}  // namespace

const json* parameter(const json& object, const char* key) {
  const auto parameters = object.find("parameters");
  if (parameters == object.end() || !parameters->is_object()) return nullptr;
  const auto found = parameters->find(key);
  return found == parameters->end() ? nullptr : &*found;
}

bool is_true(const json* value) {
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

json parse_request(std::string_view text) {
  json request;
  try {
    request = serving::parse_json(text);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("failed to parse the request JSON buffer: {}", error.message());
  }
  if (!request.is_object()) throw InvalidArgument("the request must be a JSON object");
  return request;
}

InferBody infer_body(const HttpRequest& http) {
  std::string_view text = http.body;
  InferBody body;
  const std::string_view given = http.header(kHeaderLength);
  if (!given.empty()) {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), size);
    if (error != std::errc() || end != given.data() + given.size() || size == 0 ||
        size > text.size()) {
      throw InvalidArgument("inference header size should be in range (0, {}), got: {}",
                            text.size(), given.substr(0, 40));
    }
    body.binary = text.substr(size);
    text = text.substr(0, size);
  }
  body.request = parse_request(text);
  return body;
}

Tensors infer_inputs(const InferBody& body, const std::string& model) {
  const json& inputs = member(body.request, "inputs", "the request");
  if (!inputs.is_array()) throw InvalidArgument("'inputs' of the request must be a list");
  std::string_view binary = body.binary;
  Tensors tensors;
  for (const json& input : inputs) {
    const TensorHeader header = header_of(input);
    if (tensors.contains(header.name)) {
      throw InvalidArgument("input '{}' is given twice for model '{}'", header.name, model);
    }
    if (const json* size = parameter(input, "binary_data_size")) {
      if (!size->is_number_unsigned() || size->get<std::uint64_t>() > binary.size()) {
        throw InvalidArgument(
            "unexpected size for input '{}', expecting {} additional bytes for model '{}'",
            header.name, serving::shown_json(*size), model);
      }
      const auto bytes = size->get<std::uint64_t>();
      tensors.emplace(header.name, tensor_from_raw(header, binary.substr(0, bytes), model));
      binary.remove_prefix(bytes);
      continue;
    }
    EmptyTensor empty = empty_tensor(header, model);
    std::int64_t left = empty.elements;
    put_elements(member(input, "data", "an input"), header, left, empty.tensor);
    if (left != 0) {
      throw InvalidArgument(
          "Unable to parse 'data': Shape does not match true shape of 'data' field");
    }
    tensors.emplace(header.name, std::move(empty.tensor));
  }
  if (!binary.empty())
    throw InvalidArgument("unexpected additional input data for model '{}'", model);
  return tensors;
}

OutputWishes wishes_of(const json& request) {
  OutputWishes wishes;
  wishes.all_binary = is_true(parameter(request, "binary_data_output"));
  const auto outputs = request.find("outputs");
  if (outputs == request.end()) return wishes;
  if (!outputs->is_array()) throw InvalidArgument("'outputs' of the request must be a list");
  for (const json& output : *outputs) {
    wishes.names.push_back(text_member(output, "name", "an output"));
    if (const json* binary = parameter(output, "binary_data")) {
      wishes.binary[wishes.names.back()] = is_true(binary);
    }
  }
  return wishes;
}

HttpResponse infer_answer(const json& request, const ModelVersion& version, const Tensors& outputs,
                          const OutputWishes& wishes) {
  std::string text = "{";
  const auto id = request.find("id");
  if (id != request.end() && id->is_string() && !id->get_ref<const std::string&>().empty()) {
    text +=
        fmt::format("\"id\":{},", serving::json_string_lossy(id->get_ref<const std::string&>()));
  }
  text += fmt::format("\"model_name\":{},\"model_version\":\"{}\",\"outputs\":[",
                      serving::json_string_lossy(version.model()), version.number());
  std::string binary;
  bool any_binary = false;
  bool first = true;
  for (const auto& [name, tensor] : outputs) {
    tensor.check();
    ordered shape(tensor.shape);
    text += fmt::format("{}{{\"name\":{},\"datatype\":\"{}\",\"shape\":{},", first ? "" : ",",
                        serving::json_string_lossy(name), datatype_of(tensor.dtype), shape.dump());
    first = false;
    if (wishes.is_binary(name)) {
      const std::string bytes = raw_bytes(tensor);
      text += fmt::format("\"parameters\":{{\"binary_data_size\":{}}}}}", bytes.size());
      binary += bytes;
      any_binary = true;
    } else {
      text += "\"data\":" + flat_json(tensor) + "}";
    }
  }
  text += "]}";
  HttpResponse answer;
  if (any_binary) {
    answer.content_type = "application/octet-stream";
    answer.headers.emplace_back(kHeaderLength, std::to_string(text.size()));
  }
  answer.body = std::move(text) + binary;
  return answer;
}

}  // namespace muster::serving::oip
