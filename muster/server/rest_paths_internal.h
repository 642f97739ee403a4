#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/server/rest_api.h"

namespace muster::server {

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

/// /v1/models...
HttpAnswer answer_tensorflow(RestContext& context);
/// /v1/projects/P/models/M[/versions/V]:predict, and the models and versions themselves.
HttpAnswer answer_cloud(RestContext& context);
/// The latter: `path` is what stands behind "/v1/projects/PROJECT/models".
HttpAnswer answer_cloud_models(RestContext& context, const std::string& project,
                               std::string_view path);
/// Errors of the platform are objects; those of a prediction are texts.
HttpAnswer cloud_error(ErrorCode code, std::string_view text);
/// /v2...
HttpAnswer answer_inference_protocol(RestContext& context);

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

HttpAnswer json_answer(std::string body);

}  // namespace muster::server
