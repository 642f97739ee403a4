#include "muster/serving/protocols/open_inference/inference_rest_internal.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/serving/codec/signature_choice.h"
#include "muster/serving/codec/signature_defaults.h"
#include "muster/serving/protocols/open_inference/infer_json_internal.h"
#include "muster/serving/protocols/open_inference/inference_words.h"

namespace muster::serving {
namespace {

using nlohmann::json;
using ordered = nlohmann::ordered_json;

HttpResponse ordered_answer(const ordered& body) {
  return json_answer(body.dump(-1, ' ', false, ordered::error_handler_t::replace));
}

HttpResponse wrong_verb() {
  HttpResponse answer = error_answer_of(ErrorCode::kInvalidArgument, "Method Not Allowed");
  answer.status = 405;
  return answer;
}

// A signature that is not the default may be named by the parameter signature_name.
std::string signature_wish(const json& request) {
  const json* const name = oip::parameter(request, "signature_name");
  return name != nullptr && name->is_string() ? name->get<std::string>() : std::string();
}

Deadline timeout_wish(const HttpRequest& http, const Deadline& usual, const json& request) {
  const json* const timeout = oip::parameter(request, "timeout");
  if (timeout == nullptr || !timeout->is_number_unsigned()) return usual;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  const auto micros = std::min(timeout->get<std::uint64_t>(), kMost);
  if (micros == 0) return usual;
  const Deadline wished = Deadline::at(http.received + std::chrono::microseconds(micros));
  return usual.is_never() || wished.time() < usual.time() ? wished : usual;
}

std::uint64_t priority_wish(const json& request) {
  const json* const priority = oip::parameter(request, "priority");
  return priority != nullptr && priority->is_number_unsigned() ? priority->get<std::uint64_t>() : 0;
}

/// Whether a version is asked for to predict or to be described.
enum class Ask { kDescribe, kPredict };

ModelVersionPtr find_version(RestContext& context, const ModelPath& path,
                             Ask ask = Ask::kDescribe) {
  const ModelStore& store = context.service.store();
  const VersionChoice choice = context.choice(path);
  try {
    return ask == Ask::kPredict ? store.draw(path.model, choice) : store.find(path.model, choice);
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
      : RestPrediction({.model = version->model(), .found = version}),
        request_(context.request),
        usual_deadline_(context.deadline()),
        version_(std::move(version)) {}

  void prepare(Call& call) override {
    body_ = oip::infer_body(request_);
    wishes_ = oip::wishes_of(body_.request);
    call.signature = chosen_signature(*version_, signature_wish(body_.request));
    call.deadline = timeout_wish(request_, usual_deadline_, body_.request);
    call.priority = priority_wish(body_.request);
  }
  Tensors inputs(const ModelVersion& version, const graph::SignatureDef& signature) override {
    Tensors inputs = oip::infer_inputs(body_, version.model());
    oip::check_inputs(version.model(), signature, inputs);
    add_defaults(signature, inputs);
    return inputs;
  }
  HttpResponse answer(const ModelVersion& version, BatchAnswer result) override {
    oip::select_outputs(version.model(), wishes_.names, result.outputs);
    return oip::infer_answer(body_.request, version, result.outputs, wishes_);
  }

 private:
  const HttpRequest& request_;
  Deadline usual_deadline_;
  ModelVersionPtr version_;
  oip::InferBody body_{};
  oip::OutputWishes wishes_{};
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

RestResult metadata(RestContext& context, const ModelPath& path) {
  const ModelVersionPtr version = find_version(context, path);
  const graph::SignatureDef& signature = *version->find_signature(chosen_signature(*version, ""));
  ordered versions = ordered::array();
  for (const VersionStatus& one : context.service.store().status(path.model)) {
    if (one.state == VersionState::kAvailable) versions.push_back(std::to_string(one.number));
  }
  return ordered_answer({{"name", path.model},
                         {"versions", versions},
                         {"platform", version->platform()},
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

RestResult model_statistics(RestContext& context, const ModelPath& path) {
  find_version(context, path);
  return statistics(context, path.model);
}

RestResult begin_infer(RestContext& context, const ModelPath& path) {
  return std::make_unique<Infer>(context, find_version(context, path, Ask::kPredict));
}

RestResult model_ready(RestContext& context, const ModelPath& path) {
  try {
    context.service.store().find(path.model, path.version);
    return ordered_answer({{"name", path.model}, {"ready", true}});
  } catch (const Error&) {
    return error_answer_of(ErrorCode::kUnavailable, "Model version not ready");
  }
}

/// An endpoint below /v2/models/MODEL[/versions/VERSION].
struct ModelEndpoint {
  // Rest of the path after the version; empty for none.
  const char* name;
  const char* verb;
  RestResult (*answer)(RestContext& context, const ModelPath& path);
};
constexpr ModelEndpoint kModelEndpoints[] = {
    {"", "GET", metadata},
    {"ready", "GET", model_ready},
    {"infer", "POST", begin_infer},
    {"stats", "GET", model_statistics},
};

RestResult answer_model(RestContext& context, std::string_view rest) {
  const auto path = parse_model_path(rest, /*numeric_versions=*/true);
  if (!path || path->separator == ':') return error_answer_of(ErrorCode::kNotFound, "Not Found");
  for (const ModelEndpoint& endpoint : kModelEndpoints) {
    if (path->method != endpoint.name) continue;
    return context.request.method == endpoint.verb ? endpoint.answer(context, *path) : wrong_verb();
  }
  return error_answer_of(ErrorCode::kNotFound, "Not Found");
}

// ------------------------------------------------------------------------------ the repository

// An empty body asks for nothing in particular.
json repository_wish(const HttpRequest& request) {
  const bool has_body = request.body.find_first_not_of(" \t\r\n") != std::string::npos;
  return has_body ? oip::parse_request(request.body) : json::object();
}

HttpResponse repository_index(RestContext& context) {
  const json wish = repository_wish(context.request);
  const bool only_ready = wish.contains("ready") && oip::is_true(&wish["ready"]);
  ordered list = ordered::array();
  for (const oip::IndexEntry& entry : oip::repository_index(context.service, only_ready)) {
    ordered row{{"name", entry.name}};
    if (!entry.version.empty()) row["version"] = entry.version;
    row["state"] = entry.state;
    row["reason"] = entry.reason;
    // Properties that the protocol has no field for.
    if (!entry.labels.empty()) row["parameters"]["labels"] = entry.labels;
    if (entry.is_default) row["parameters"]["default"] = true;
    if (entry.share) row["parameters"]["share"] = *entry.share;
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

RestResult server_metadata(RestContext&) {
  return ordered_answer({{"name", oip::kServerName},
                         {"version", server_version()},
                         {"extensions",
                          {"binary_tensor_data", "model_repository", "statistics",
                           "schedule_policy", "parameters"}}});
}

RestResult model_list(RestContext& context) {
  ordered names = ordered::array();
  for (const ModelConfig& model : context.service.store().models()) names.push_back(model.name);
  return ordered_answer({{"models", names}});
}

RestResult all_statistics(RestContext& context) { return statistics(context, ""); }

/// A page of the server: a GET of /v2 followed by `path`.
struct ServerPage {
  const char* path;
  RestResult (*answer)(RestContext& context);
};
constexpr ServerPage kServerPages[] = {
    {"", server_metadata},
    {"/", server_metadata},
    {"/models", model_list},
    {"/models/stats", all_statistics},
};

}  // namespace

RestResult answer_open_inference(RestContext& context) {
  std::string_view rest = context.path.substr(std::string_view("/v2").size());
  const auto take = [&](std::string_view prefix) {
    if (!rest.starts_with(prefix)) return false;
    rest.remove_prefix(prefix.size());
    return true;
  };
  if (take("/health/")) return server_health(context, rest);
  if (take("/repository/")) return answer_repository(context, rest);
  context.check(Role::kPredict);
  for (const ServerPage& page : kServerPages) {
    if (rest != page.path) continue;
    return context.request.method == "GET" ? page.answer(context) : wrong_verb();
  }
  if (take("/models/")) return answer_model(context, rest);
  return error_answer_of(ErrorCode::kNotFound, "Not Found");
}

}  // namespace muster::serving
