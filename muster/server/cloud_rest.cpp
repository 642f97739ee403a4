// Cloud ML Engine's projects.predict; what its models are is in cloud_models.cpp.
#include <fmt/core.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/server/rest_paths_internal.h"
#include "muster/serving/instances.h"
#include "muster/serving/predict_request.h"
#include "muster/serving/predictions.h"
#include "muster/serving/signature_choice.h"

namespace muster::server {
namespace {

template <typename Act>
auto in_cloud_step(const char* message, int code, Act&& act) {
  try {
    return act();
  } catch (...) {
    const Description failure = muster::describe(std::current_exception());
    throw Error(failure.code,
                fmt::format("{}: {} (Error code: {})", message, failure.message, code));
  }
}

// A version here is a name, such as v1: a label, or a number with or without a v in front.
VersionChoice cloud_version(ModelStore& store, const ModelPath& path) {
  const std::string& name = path.version_text;
  if (name.empty() || path.version.number) return path.version;
  if (name.size() > 1 && name.size() < 19 && name.front() == 'v' &&
      name.find_first_not_of("0123456789", 1) == name.npos) {
    try {
      store.version_of_label(path.model, name);
    } catch (const InvalidArgument&) {
      return {.number = std::stoll(name.substr(1))};
    }
  }
  return {.label = name};
}

HttpAnswer predict_instances(RestContext& context, Call call) {
  std::optional<serving::Instances> instances;
  HttpAnswer answer;
  bool computing = false;
  const auto version = context.service.store().find(call.model, call.version);
  call.version = {.number = version->number()};
  const auto prepare = [&](Call& prepared) {
    in_cloud_step("Invalid inputs", 1, [&] {
      instances.emplace(serving::Instances::from_request(context.request.body));
      graph::MetaGraph meta;
      meta.signatures = version->signatures();
      prepared.signature = serving::choose_signature(meta, instances->signature_name());
    });
  };
  const Service::Steps steps{
      .inputs =
          [&](const ModelVersion&, const graph::SignatureDef& signature) {
            Tensors inputs =
                in_cloud_step("Invalid inputs", 1, [&] { return instances->tensors(signature); });
            computing = true;
            return inputs;
          },
      .answer =
          [&](const ModelVersion&, BatchAnswer result) {
            computing = false;
            in_cloud_step("There was a problem processing the outputs", 3, [&] {
              const serving::Predictions checked(result.outputs);
              answer.body = serving::predict_answer(result.outputs, true);
            });
          }};
  try {
    context.service.run(call, prepare, steps);
  } catch (...) {
    if (!computing) throw;
    in_cloud_step("Failed to run the provided model", 2, [] { throw; });
  }
  return answer;
}

}  // namespace

HttpAnswer cloud_error(ErrorCode code, std::string_view text) {
  const int status = http_status_of(code);
  const nlohmann::ordered_json body{
      {"error", {{"code", status}, {"message", text}, {"status", muster::name_of(code)}}}};
  return {.status = status,
          .body = body.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

HttpAnswer answer_cloud(RestContext& context) {
  try {
    context.check(Role::kPredict);
  } catch (const Error& error) {
    return cloud_error(error.code(), error.message());
  }
  constexpr std::string_view kProjects = "/v1/projects/";
  constexpr std::string_view kModels = "/models";
  const std::string_view rest = context.path.substr(kProjects.size());
  const auto slash = rest.find('/');
  const std::string_view behind = slash == rest.npos ? std::string_view() : rest.substr(slash);
  if (slash == 0 || !behind.starts_with(kModels)) {
    return cloud_error(ErrorCode::kNotFound, "Method not found.");
  }
  const std::string_view models = behind.substr(kModels.size());
  if (!models.ends_with(":predict")) {
    return answer_cloud_models(context, std::string(rest.substr(0, slash)), models);
  }
  const auto path = models.starts_with('/')
                        ? parse_model_path(models.substr(1), /*numeric_versions=*/false)
                        : std::nullopt;
  if (!path || path->separator != ':' || path->method != "predict" ||
      context.request.method != "POST") {
    return cloud_error(ErrorCode::kNotFound, "Method not found.");
  }
  Call call{.model = path->model, .deadline = context.deadline()};
  try {
    call.version = cloud_version(context.service.store(), *path);
    context.service.store().find(call.model, call.version);
  } catch (const Error& error) {
    return cloud_error(ErrorCode::kNotFound, error.message());
  }
  return predict_instances(context, std::move(call));
}

}  // namespace muster::server
