// TensorFlow Serving's REST API.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/server/rest_paths_internal.h"
#include "muster/serving/example_request.h"
#include "muster/serving/predict_request.h"

namespace muster::server {
namespace {

using ordered = nlohmann::ordered_json;
using serving::ExampleRequest;
using serving::PredictRequest;

[[noreturn]] void throw_malformed(const RestContext& context) {
  throw InvalidArgument("Malformed request: {} {}", context.request.method, context.path);
}

std::string status_body(const std::vector<VersionStatus>& all) {
  ordered list = ordered::array();
  for (const VersionStatus& one : all) {
    list.push_back(
        {{"version", std::to_string(one.number)},
         {"state", name_of(one.state)},
         {"status", {{"error_code", muster::name_of(one.code)}, {"error_message", one.message}}}});
  }
  return ordered{{"model_version_status", list}}.dump(1) + "\n";
}

HttpAnswer model_status(RestContext& context, const ModelPath& path) {
  std::vector<VersionStatus> all = context.service.store().status(path.model);
  std::optional<std::int64_t> number = path.version.number;
  if (!path.version.label.empty()) {
    number = context.service.store().version_of_label(path.model, path.version.label);
  }
  if (number) {
    std::erase_if(all, [&](const VersionStatus& one) { return one.number != *number; });
    if (all.empty()) throw NotFound("Could not find version {} of model {}", *number, path.model);
  }
  return json_answer(status_body(all));
}

ordered tensor_info_json(const graph::TensorInfo& info) {
  ordered dims = ordered::array();
  for (const std::int64_t size : info.shape.dims) {
    dims.push_back({{"size", std::to_string(size)}, {"name", ""}});
  }
  ordered out{{"dtype", graph::name_of(info.dtype)},
              {"tensor_shape", {{"dim", dims}, {"unknown_rank", info.shape.unknown_rank}}}};
  if (info.sparse) {
    out["coo_sparse"] = {{"values_tensor_name", info.sparse->values},
                         {"indices_tensor_name", info.sparse->indices},
                         {"dense_shape_tensor_name", info.sparse->dense_shape}};
  } else {
    out["name"] = info.name;
  }
  return out;
}

ordered signature_json(const graph::SignatureDef& signature) {
  ordered inputs = ordered::object();
  ordered outputs = ordered::object();
  for (const auto& [name, info] : signature.inputs) inputs[name] = tensor_info_json(info);
  for (const auto& [name, info] : signature.outputs) outputs[name] = tensor_info_json(info);
  return {{"inputs", inputs}, {"outputs", outputs}, {"method_name", signature.method_name}};
}

HttpAnswer model_metadata(RestContext& context, const ModelPath& path) {
  const ModelVersionPtr version = context.service.store().find(path.model, path.version);
  ordered signatures = ordered::object();
  for (const auto& [name, signature] : version->signatures()) {
    signatures[name] = signature_json(signature);
  }
  const ordered body{{"model_spec",
                      {{"name", path.model},
                       {"signature_name", ""},
                       {"version", std::to_string(version->number())}}},
                     {"metadata", {{"signature_def", {{"signature_def", signatures}}}}}};
  return json_answer(body.dump(1, ' ', false, ordered::error_handler_t::replace) + "\n");
}

HttpAnswer predict(RestContext& context, Call call) {
  std::optional<PredictRequest> request;
  HttpAnswer answer;
  context.service.run(
      call,
      [&](Call& prepared) {
        request.emplace(PredictRequest::from_json(context.request.body));
        prepared.signature = request->signature_name();
      },
      {.no_signature =
           [&](const ModelVersion&) {
             throw InvalidArgument("Serving signature name: \"{}\" not found in signature def",
                                   call.signature);
           },
       .inputs = [&](const ModelVersion&,
                     const graph::SignatureDef& signature) { return request->tensors(signature); },
       .answer =
           [&](const ModelVersion&, BatchAnswer result) {
             answer.body = serving::predict_answer(result.outputs, request->is_row_form());
           }});
  return answer;
}

HttpAnswer classify_or_regress(RestContext& context, Call call, bool classify) {
  ExampleRequest request;
  HttpAnswer answer;
  std::int64_t examples = 0;
  call.method = classify ? "Classify" : "Regress";
  context.service.run(
      call,
      [&](Call& prepared) {
        request = serving::example_request_from_json(context.request.body,
                                                     classify ? "classify" : "regress");
        prepared.signature = request.signature_name;
        examples = static_cast<std::int64_t>(request.examples.size());
      },
      {.no_signature =
           [&](const ModelVersion&) {
             throw InvalidArgument("No signature was found with the name: {}", call.signature);
           },
       .inputs =
           [&](const ModelVersion&, const graph::SignatureDef& signature) {
             return serving::example_inputs(signature, std::move(request.examples));
           },
       .answer =
           [&](const ModelVersion&, const BatchAnswer& result) {
             answer.body =
                 classify
                     ? serving::classify_answer(
                           serving::classifications_of(result.outputs, examples))
                     : serving::regress_answer(serving::regressions_of(result.outputs, examples));
           }});
  return answer;
}

}  // namespace

HttpAnswer answer_tensorflow(RestContext& context) {
  context.check(Role::kPredict);
  constexpr std::string_view kModels = "/v1/models";
  if (!equal_ignoring_case(context.path.substr(0, kModels.size()), kModels)) {
    throw_malformed(context);
  }
  std::string_view rest = context.path.substr(kModels.size());
  const bool is_get = context.request.method == "GET";
  if (rest.empty() || rest == "/") {
    if (!is_get) throw_malformed(context);
    ordered names = ordered::array();
    for (const ModelConfig& model : context.service.store().models()) names.push_back(model.name);
    return json_answer(ordered{{"models", names}}.dump(1) + "\n");
  }
  if (rest.front() != '/') throw_malformed(context);
  const auto path = parse_model_path(rest.substr(1), /*numeric_versions=*/true);
  if (!path) throw_malformed(context);
  if (is_get && path->separator == 0) return model_status(context, *path);
  if (is_get && path->separator == '/' && path->method == "metadata") {
    return model_metadata(context, *path);
  }
  if (context.request.method != "POST" || path->separator != ':') throw_malformed(context);
  Call call{.model = path->model, .version = path->version, .deadline = context.deadline()};
  if (path->method == "predict") return predict(context, std::move(call));
  if (path->method == "classify") return classify_or_regress(context, std::move(call), true);
  if (path->method == "regress") return classify_or_regress(context, std::move(call), false);
  throw_malformed(context);
}

}  // namespace muster::server
