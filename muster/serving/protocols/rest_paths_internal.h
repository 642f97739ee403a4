#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "muster/base/error.h"
#include "muster/serving/protocols/rest_api.h"

namespace muster::serving {

/// What a protocol's paths need.
struct RestContext {
  Service& service;
  const RestOptions& options;
  HttpRequest& request;
  /// Of the target, without the query.
  std::string_view path;

  Deadline deadline() const;
  void check(Role role) const;
};

/// A prediction that is asked for, in the words of a protocol: what Service::start() wants of an
/// edge. It refers to the request that it was made of.
class RestPrediction {
 public:
  explicit RestPrediction(Call call) : call_(std::move(call)) {}
  virtual ~RestPrediction() = default;

  /// Taken once.
  Call take_call() { return std::move(call_); }
  virtual void prepare(Call& call) = 0;
  virtual void no_signature() {}
  virtual Tensors inputs(const ModelVersion& version, const graph::SignatureDef& signature) = 0;
  virtual HttpResponse answer(const ModelVersion& version, BatchAnswer result) = 0;
  /// What the client is told of a failure.
  virtual Description failure(const std::exception_ptr& failure) const {
    return muster::describe(failure);
  }

 private:
  Call call_;
};

/// What a path leads to.
using RestResult = std::variant<HttpResponse, std::unique_ptr<RestPrediction>>;

/// /v1/models...
RestResult answer_tensorflow(RestContext& context);
/// /v1/projects/P/models/M[/versions/V]:predict, and the models and versions themselves.
RestResult answer_cloud(RestContext& context);
/// The latter: `path` is what stands behind "/v1/projects/PROJECT/models".
HttpResponse answer_cloud_models(RestContext& context, const std::string& project,
                                 std::string_view path);
/// Errors of the platform are objects; those of a prediction are texts.
HttpResponse cloud_error(ErrorCode code, std::string_view text);
/// /v2...
RestResult answer_inference_protocol(RestContext& context);

/// MODEL[/versions/V or /labels/L] followed by :METHOD or /METHOD or nothing. Nothing where the
/// text has another form. Names are percent-decoded; throws InvalidArgument for what cannot be, and
/// for a version that is no 64-bit number.
struct ModelPath {
  std::string model{};
  VersionChoice version{};
  /// As it stood, for protocols where a version is a name.
  std::string version_text{};
  /// ':', '/' or 0 when there is no method.
  char separator = 0;
  std::string method{};
};
std::optional<ModelPath> parse_model_path(std::string_view text, bool numeric_versions);

HttpResponse json_answer(std::string body);

}  // namespace muster::serving
