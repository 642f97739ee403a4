// The Open Inference Protocol over REST, with the extension for binary tensors.
#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/serving/codec/json.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/codec/signature_choice.h"
#include "muster/serving/protocols/open_inference/inference_protocol.h"
#include "muster/serving/protocols/rest_paths_internal.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;
using nlohmann::json;
using ordered = nlohmann::ordered_json;

constexpr std::string_view kHeaderLength = "Inference-Header-Content-Length";

HttpResponse ordered_answer(const ordered& body) {
  return json_answer(body.dump(-1, ' ', false, ordered::error_handler_t::replace));
}

HttpResponse wrong_verb() {
  HttpResponse answer = error_answer_of(ErrorCode::kInvalidArgument, "Method Not Allowed");
  answer.status = 405;
  return answer;
}

// ------------------------------------------------------------------------------ values in JSON

template <typename T>
void put_number(T value, TensorValue& out) {
  out.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
void put_whole(const json& value, const oip::TensorHeader& header, TensorValue& out) {
  const bool fits = value.is_number_integer() &&
                    (value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                : std::in_range<T>(value.get<std::int64_t>()));
  if (!fits) {
    throw InvalidArgument("Unable to parse 'data': {} is no {} for input '{}'",
                          serving::shown_json(value), header.datatype, header.name);
  }
  put_number(value.get<T>(), out);
}

double real_number(const json& value, const oip::TensorHeader& header) {
  if (const auto special = serving::special_double(value)) return *special;
  if (!value.is_number()) {
    throw InvalidArgument("Unable to parse 'data': {} is no {} for input '{}'",
                          serving::shown_json(value), header.datatype, header.name);
  }
  return value.get<double>();
}

void put_element(const json& value, const oip::TensorHeader& header, TensorValue& out) {
  switch (out.dtype) {
    case DataType::kFloat:
      return put_number(static_cast<float>(real_number(value, header)), out);
    case DataType::kDouble:
      return put_number(real_number(value, header), out);
    case DataType::kHalf:
      return put_number(oip::half_bits(static_cast<float>(real_number(value, header))), out);
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
void put_elements(const json& value, const oip::TensorHeader& header, std::int64_t& left,
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

// ------------------------------------------------------------------------------ requests

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

const json* parameter(const json& object, const char* key) {
  const auto parameters = object.find("parameters");
  if (parameters == object.end() || !parameters->is_object()) return nullptr;
  const auto found = parameters->find(key);
  return found == parameters->end() ? nullptr : &*found;
}

bool is_true(const json* value) {
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

oip::TensorHeader header_of(const json& input) {
  oip::TensorHeader header{.name = text_member(input, "name", "an input"),
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

/// A request's JSON and the bytes behind it.
struct InferBody {
  json request{};
  std::string_view binary{};
};

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
    const oip::TensorHeader header = header_of(input);
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
      tensors.emplace(header.name, oip::tensor_from_raw(header, binary.substr(0, bytes), model));
      binary.remove_prefix(bytes);
      continue;
    }
    oip::EmptyTensor empty = oip::empty_tensor(header, model);
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

// ------------------------------------------------------------------------------ answers

std::string flat_json(const TensorValue& tensor) {
  TensorValue flat = tensor;
  flat.shape = {*graph::element_count(tensor.shape)};
  return serving::tensor_json(flat, false);
}

/// Which outputs are asked for, and which of them as bytes.
struct OutputWishes {
  std::vector<std::string> names{};
  std::map<std::string, bool, std::less<>> binary{};
  bool all_binary = false;

  bool is_binary(const std::string& name) const {
    const auto found = binary.find(name);
    return found == binary.end() ? all_binary : found->second;
  }
};

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
    text +=
        fmt::format("{}{{\"name\":{},\"datatype\":\"{}\",\"shape\":{},", first ? "" : ",",
                    serving::json_string_lossy(name), oip::datatype_of(tensor.dtype), shape.dump());
    first = false;
    if (wishes.is_binary(name)) {
      const std::string bytes = oip::raw_bytes(tensor);
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

// A signature that is not the default may be named by the parameter signature_name.
std::string signature_wish(const json& request) {
  const json* const name = parameter(request, "signature_name");
  return name != nullptr && name->is_string() ? name->get<std::string>() : std::string();
}

Deadline timeout_wish(const HttpRequest& http, const Deadline& usual, const json& request) {
  const json* const timeout = parameter(request, "timeout");
  if (timeout == nullptr || !timeout->is_number_unsigned()) return usual;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  const auto micros = std::min(timeout->get<std::uint64_t>(), kMost);
  if (micros == 0) return usual;
  const Deadline wished = Deadline::at(http.received + std::chrono::microseconds(micros));
  return usual.is_never() || wished.time() < usual.time() ? wished : usual;
}

std::uint64_t priority_wish(const json& request) {
  const json* const priority = parameter(request, "priority");
  return priority != nullptr && priority->is_number_unsigned() ? priority->get<std::uint64_t>() : 0;
}

ModelVersionPtr find_version(RestContext& context, const ModelPath& path) {
  try {
    return context.service.store().find(path.model, path.version);
  } catch (const NotFound&) {
    if (path.version.number) {
      throw NotFound("Request for unknown model: '{}' version {} is not found", path.model,
                     *path.version.number);
    }
    throw NotFound("Request for unknown model: '{}' is not found", path.model);
  }
}

std::string chosen_signature(const ModelVersion& version, const std::string& wish) {
  graph::MetaGraph meta;
  meta.signatures = version.signatures();
  return serving::choose_signature(meta, wish);
}

class Infer final : public RestPrediction {
 public:
  Infer(const RestContext& context, ModelVersionPtr version)
      : RestPrediction({.model = version->model(), .version = {.number = version->number()}}),
        request_(context.request),
        usual_deadline_(context.deadline()),
        version_(std::move(version)) {}

  void prepare(Call& call) override {
    body_ = infer_body(request_);
    wishes_ = wishes_of(body_.request);
    call.signature = chosen_signature(*version_, signature_wish(body_.request));
    call.deadline = timeout_wish(request_, usual_deadline_, body_.request);
    call.priority = priority_wish(body_.request);
  }
  Tensors inputs(const ModelVersion& version, const graph::SignatureDef& signature) override {
    Tensors inputs = infer_inputs(body_, version.model());
    oip::check_inputs(version.model(), signature, inputs);
    return inputs;
  }
  HttpResponse answer(const ModelVersion& version, BatchAnswer result) override {
    oip::select_outputs(version.model(), wishes_.names, result.outputs);
    return infer_answer(body_.request, version, result.outputs, wishes_);
  }

 private:
  const HttpRequest& request_;
  Deadline usual_deadline_;
  ModelVersionPtr version_;
  InferBody body_{};
  OutputWishes wishes_{};
};

ordered tensors_metadata(const std::map<std::string, graph::TensorInfo, std::less<>>& infos) {
  ordered list = ordered::array();
  for (const auto& [name, info] : infos) {
    list.push_back({{"name", name},
                    {"datatype", oip::datatype_of(info.dtype)},
                    {"shape", oip::shape_of(info)}});
  }
  return list;
}

HttpResponse metadata(RestContext& context, const ModelPath& path) {
  const ModelVersionPtr version = find_version(context, path);
  const graph::SignatureDef& signature = *version->find_signature(chosen_signature(*version, ""));
  ordered versions = ordered::array();
  for (const VersionStatus& one : context.service.store().status(path.model)) {
    if (one.state == VersionState::kAvailable) versions.push_back(std::to_string(one.number));
  }
  return ordered_answer({{"name", path.model},
                         {"versions", versions},
                         {"platform", oip::kPlatform},
                         {"inputs", tensors_metadata(signature.inputs)},
                         {"outputs", tensors_metadata(signature.outputs)}});
}

ordered duration(std::uint64_t count, std::uint64_t ns) { return {{"count", count}, {"ns", ns}}; }

HttpResponse statistics(RestContext& context, const std::string& model) {
  ordered list = ordered::array();
  for (const ModelVersionPtr& version : context.service.store().available()) {
    if (!model.empty() && version->model() != model) continue;
    const VersionCounts counts =
        context.service.statistics().counts(version->model(), version->number());
    list.push_back({{"name", version->model()},
                    {"version", std::to_string(version->number())},
                    {"last_inference", counts.last_ms},
                    {"inference_count", counts.rows},
                    {"execution_count", std::llround(counts.executions)},
                    {"inference_stats",
                     {{"success", duration(counts.success, counts.success_ns)},
                      {"fail", duration(counts.failure, counts.failure_ns)},
                      {"queue", duration(counts.success, counts.queued_ns)},
                      {"compute_input", duration(counts.success, 0)},
                      {"compute_infer", duration(counts.success, counts.computed_ns)},
                      {"compute_output", duration(counts.success, 0)}}}});
  }
  return ordered_answer({{"model_stats", list}});
}

HttpResponse model_ready(RestContext& context, const ModelPath& path) {
  try {
    context.service.store().find(path.model, path.version);
    return ordered_answer({{"name", path.model}, {"ready", true}});
  } catch (const Error&) {
    HttpResponse answer = error_answer_of(ErrorCode::kUnavailable, "Model version not ready");
    return answer;
  }
}

RestResult answer_model(RestContext& context, std::string_view rest) {
  const auto path = parse_model_path(rest, /*numeric_versions=*/true);
  if (!path || path->separator == ':') return error_answer_of(ErrorCode::kNotFound, "Not Found");
  const bool is_get = context.request.method == "GET";
  if (path->separator == 0) return is_get ? metadata(context, *path) : wrong_verb();
  if (path->method == "ready") return is_get ? model_ready(context, *path) : wrong_verb();
  if (path->method == "infer") {
    if (context.request.method != "POST") return wrong_verb();
    return std::make_unique<Infer>(context, find_version(context, *path));
  }
  if (path->method == "stats") {
    if (!is_get) return wrong_verb();
    find_version(context, *path);
    return statistics(context, path->model);
  }
  return error_answer_of(ErrorCode::kNotFound, "Not Found");
}

// ------------------------------------------------------------------------------ the repository

// An empty body asks for nothing in particular.
json repository_wish(const HttpRequest& request) {
  const bool has_body = request.body.find_first_not_of(" \t\r\n") != std::string::npos;
  return has_body ? parse_request(request.body) : json::object();
}

HttpResponse repository_index(RestContext& context) {
  const json wish = repository_wish(context.request);
  const bool only_ready = wish.contains("ready") && is_true(&wish["ready"]);
  ordered list = ordered::array();
  for (const oip::IndexEntry& entry : oip::repository_index(context.service, only_ready)) {
    ordered row{{"name", entry.name}};
    if (!entry.version.empty()) row["version"] = entry.version;
    row["state"] = entry.state;
    row["reason"] = entry.reason;
    // What the protocol has no word for.
    if (!entry.labels.empty()) row["parameters"]["labels"] = entry.labels;
    if (entry.is_default) row["parameters"]["default"] = true;
    list.push_back(row);
  }
  return ordered_answer(list);
}

void check_load_parameters(const std::string& model, const json& wish) {
  const auto parameters = wish.find("parameters");
  if (parameters == wish.end()) return;
  if (!parameters->is_object()) {
    throw InvalidArgument("failed to load '{}': 'parameters' must be a JSON object", model);
  }
  for (const auto& [name, value] : parameters->items()) {
    oip::check_load_parameter(model, name,
                              value.is_string() ? value.get<std::string>() : value.dump());
  }
}

HttpResponse answer_repository(RestContext& context, std::string_view rest) {
  if (context.request.method != "POST") return wrong_verb();
  if (rest == "index") {
    context.check(Role::kPredict);
    return repository_index(context);
  }
  constexpr std::string_view kModels = "models/";
  const auto path = rest.starts_with(kModels) ? parse_model_path(rest.substr(kModels.size()), true)
                                              : std::nullopt;
  if (!path || path->separator != '/' || (path->method != "load" && path->method != "unload")) {
    return error_answer_of(ErrorCode::kNotFound, "Not Found");
  }
  context.check(Role::kAdmin);
  if (!context.options.repository_control) {
    throw Unavailable("explicit model load / unload is not allowed if polling is enabled");
  }
  if (path->method == "load") {
    check_load_parameters(path->model, repository_wish(context.request));
    context.service.load(path->model, context.deadline());
  } else {
    context.service.unload(path->model);
  }
  return {};
}

HttpResponse server_health(RestContext& context, std::string_view rest) {
  if (context.request.method != "GET") return wrong_verb();
  if (rest == "live") return ordered_answer({{"live", true}});
  if (rest != "ready") return error_answer_of(ErrorCode::kNotFound, "Not Found");
  const bool ready = context.service.ready();
  HttpResponse answer = ordered_answer({{"ready", ready}});
  if (!ready) answer.status = 503;
  return answer;
}

}  // namespace

RestResult answer_inference_protocol(RestContext& context) {
  std::string_view rest = context.path.substr(std::string_view("/v2").size());
  const auto take = [&](std::string_view prefix) {
    if (!rest.starts_with(prefix)) return false;
    rest.remove_prefix(prefix.size());
    return true;
  };
  const bool is_get = context.request.method == "GET";
  if (take("/health/")) return server_health(context, rest);
  if (take("/repository/")) return answer_repository(context, rest);
  context.check(Role::kPredict);
  if (rest.empty() || rest == "/") {
    if (!is_get) return wrong_verb();
    return ordered_answer({{"name", oip::kServerName},
                           {"version", server_version()},
                           {"extensions",
                            {"binary_tensor_data", "model_repository", "statistics",
                             "schedule_policy", "parameters"}}});
  }
  if (rest == "/models" || rest == "/models/stats") {
    if (!is_get) return wrong_verb();
    if (rest == "/models/stats") return statistics(context, "");
    ordered names = ordered::array();
    for (const ModelConfig& model : context.service.store().models()) names.push_back(model.name);
    return ordered_answer({{"models", names}});
  }
  if (take("/models/")) return answer_model(context, rest);
  return error_answer_of(ErrorCode::kNotFound, "Not Found");
}

}  // namespace muster::serving
