// Cloud ML Engine's projects.predict; cloud_models.cpp has the calls for models and versions.
#include <fmt/core.h>

#include <exception>
#include <utility>

#include "muster/base/error.h"
#include "muster/serving/codec/instances.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/codec/predictions.h"
#include "muster/serving/codec/signature_choice.h"
#include "muster/serving/protocols/cloud/cloud_error_internal.h"
#include "muster/serving/protocols/cloud/cloud_models_internal.h"
#include "muster/serving/protocols/protocol_internal.h"

namespace muster::serving {
namespace {

std::string cloud_message(const char* step, int code, std::string_view reason) {
  return fmt::format("{}: {} (Error code: {})", step, reason, code);
}

template <typename Act>
auto in_cloud_step(const char* step, int code, Act&& act) {
  try {
    return act();
  } catch (...) {
    const Description failure = muster::describe(std::current_exception());
    throw Error(failure.code, cloud_message(step, code, failure.message));
  }
}

// A version here is a name, such as v1.
VersionChoice cloud_version(const RestContext& context, const ModelPath& path) {
  VersionChoice choice = context.choice(path);
  if (!choice.number) choice.name = path.version_text;
  return choice;
}

class PredictInstances final : public RestPrediction {
 public:
  PredictInstances(const HttpRequest& request, ModelVersionPtr version, Call call)
      : RestPrediction(std::move(call)), body_(request.body), version_(std::move(version)) {}

  void prepare(Call& call) override {
    in_cloud_step("Invalid inputs", 1, [&] {
      instances_.emplace(serving::Instances::from_request(body_));
      graph::MetaGraph meta;
      meta.signatures = version_->signatures();
      call.signature = serving::choose_signature(meta, instances_->signature_name());
    });
  }
  Tensors inputs(const ModelVersion&, const graph::SignatureDef& signature) override {
    Tensors inputs =
        in_cloud_step("Invalid inputs", 1, [&] { return instances_->tensors(signature); });
    instances_.reset();  // Their parser is for the next ones.
    is_computing_ = true;
    return inputs;
  }
  HttpResponse answer(const ModelVersion&, BatchAnswer result) override {
    is_computing_ = false;
    return in_cloud_step("There was a problem processing the outputs", 3, [&] {
      const serving::Predictions checked(result.outputs);
      return json_answer(serving::predict_answer(result.outputs, true));
    });
  }
  Description failure(const std::exception_ptr& failure) const override {
    Description told = muster::describe(failure);
    if (is_computing_) {
      told.message = cloud_message("Failed to run the provided model", 2, told.message);
    }
    return told;
  }

 private:
  const std::string& body_;
  ModelVersionPtr version_;
  std::optional<serving::Instances> instances_{};
  bool is_computing_ = false;
};

// /v1/projects/P/models/M[/versions/V]:predict, and the models and versions themselves.
RestResult answer_cloud(RestContext& context) {
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
  ModelVersionPtr version;
  try {
    version = context.service.store().draw(path->model, cloud_version(context, *path));
  } catch (const Error& error) {
    return cloud_error(ErrorCode::kNotFound, error.message());
  }
  Call call{.model = path->model, .found = version, .deadline = context.deadline()};
  return std::make_unique<PredictInstances>(context.request, std::move(version), std::move(call));
}

}  // namespace

Protocol cloud_protocol() {
  return {
      .rest = {
          {.prefix = "/v1/projects/", .answer = answer_cloud, .prediction_endings = {":predict"}}}};
}

}  // namespace muster::serving
