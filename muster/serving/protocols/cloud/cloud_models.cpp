// Cloud ML Engine's projects.models and projects.models.versions, on the folder of --models-dir.
#include "muster/serving/protocols/cloud/cloud_models_internal.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/serving/codec/model_resource.h"
#include "muster/serving/protocols/cloud/cloud_error_internal.h"

namespace muster::serving {
namespace {

using serving::ModelCatalog;
using serving::ModelRecord;
using serving::VersionRecord;

/// "/M/versions/V:setDefault" in its parts.
struct ResourcePath {
  std::optional<std::string> model{};
  bool has_versions = false;
  std::optional<std::string> version{};
  std::string action{};
};

std::optional<ResourcePath> parse_resource_path(std::string_view text) {
  ResourcePath path;
  if (const auto colon = text.rfind(':'); colon != text.npos) {
    path.action = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  std::vector<std::string> parts;
  while (!text.empty()) {
    if (text.front() != '/') return std::nullopt;
    text.remove_prefix(1);
    const auto end = text.find('/');
    parts.push_back(percent_decoded(text.substr(0, end)));
    text = end == text.npos ? std::string_view() : text.substr(end);
  }
  if (parts.size() > 3 || (parts.size() > 1 && parts[1] != "versions")) return std::nullopt;
  if (!parts.empty()) path.model = parts[0];
  path.has_versions = parts.size() > 1;
  if (parts.size() > 2) path.version = parts[2];
  return path;
}

// Changes here are done when they are answered.
HttpResponse done_operation(const std::string& parent, const std::string& name,
                            std::string_view response) {
  return json_answer(fmt::format(
      "{{\n  \"name\": \"{}/operations/{}\",\n  \"done\": true,\n  \"response\": {}}}\n", parent,
      name, response.empty() ? "{}" : response));
}

/// One call, by its method.
class CloudModels {
 public:
  CloudModels(ModelCatalog& catalog, const HttpRequest& request, std::string parent)
      : catalog_(catalog), request_(request), parent_(std::move(parent)) {}

  /// Nothing where there is no such method.
  std::optional<HttpResponse> answer(const ResourcePath& path) {
    if (!path.model) return of_models(path);
    if (!path.has_versions) return of_model(path, *path.model);
    if (!path.version) return of_versions(path, *path.model);
    return of_version(path, *path.model, *path.version);
  }

 private:
  bool is(const char* method, const ResourcePath& path, const char* action = "") const {
    return request_.method == method && path.action == action;
  }

  std::optional<HttpResponse> of_models(const ResourcePath& path) {
    if (is("GET", path)) return json_answer(serving::models_resource(parent_, catalog_.list()));
    if (!is("POST", path)) return std::nullopt;
    const ModelRecord wish = serving::parse_model_resource(request_.body);
    catalog_.create_model(wish.name, wish.description);
    return json_answer(serving::model_resource(parent_, catalog_.model(wish.name)));
  }

  std::optional<HttpResponse> of_model(const ResourcePath& path, const std::string& model) {
    if (is("GET", path))
      return json_answer(serving::model_resource(parent_, catalog_.model(model)));
    if (is("PATCH", path)) {
      const TrafficSplit split = serving::parse_traffic_split(request_.body);
      return done_operation(
          parent_, "update_" + model,
          serving::model_resource(parent_, catalog_.set_traffic_split(model, split)));
    }
    if (!is("DELETE", path)) return std::nullopt;
    catalog_.delete_model(model);
    return done_operation(parent_, "delete_" + model, "");
  }

  std::optional<HttpResponse> of_versions(const ResourcePath& path, const std::string& model) {
    if (is("GET", path)) {
      return json_answer(serving::versions_resource(parent_, catalog_.model(model)));
    }
    if (!is("POST", path)) return std::nullopt;
    const VersionRecord wish = serving::parse_version_resource(request_.body);
    if (!wish.deployment_uri.starts_with('/')) {
      throw InvalidArgument("deploymentUri must be an absolute path on the server's host: \"{}\"",
                            wish.deployment_uri);
    }
    const VersionRecord made =
        catalog_.create_version(model, wish.name, wish.deployment_uri, wish.description);
    return done_operation(parent_, fmt::format("create_{}_{}", model, made.name),
                          serving::version_resource(parent_, model, made));
  }

  std::optional<HttpResponse> of_version(const ResourcePath& path, const std::string& model,
                                         const std::string& name) {
    const auto shown = [&](const VersionRecord& version) {
      return serving::version_resource(parent_, model, version);
    };
    if (is("GET", path)) return json_answer(shown(catalog_.version(model, name)));
    if (is("POST", path, "setDefault")) {
      return json_answer(shown(catalog_.set_default(model, name)));
    }
    if (is("POST", path, "setStage")) {
      const StageChange wish = serving::parse_stage_change(request_.body);
      return json_answer(shown(catalog_.set_stage(model, name, wish.stage, wish.reason)));
    }
    if (is("PATCH", path)) {
      const VersionRecord wish = serving::parse_version_resource(request_.body);
      return done_operation(parent_, fmt::format("update_{}_{}", model, name),
                            shown(catalog_.set_description(model, name, wish.description)));
    }
    if (!is("DELETE", path)) return std::nullopt;
    catalog_.delete_version(model, name);
    return done_operation(parent_, fmt::format("delete_{}_{}", model, name), "");
  }

  ModelCatalog& catalog_;
  const HttpRequest& request_;
  std::string parent_;
};

bool is_project(const std::string& name) {
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

// A page in a browser of this host may post texts to it, but not JSON.
void check_is_no_page(const HttpRequest& request) {
  if (request.method == "POST" && !request.header("Content-Type").starts_with("application/json")) {
    throw InvalidArgument("changes need the header Content-Type: application/json");
  }
}

}  // namespace

HttpResponse answer_cloud_models(RestContext& context, const std::string& project,
                                 std::string_view path) {
  try {
    const auto resource = parse_resource_path(path);
    if (!resource || !is_project(project))
      return cloud_error(ErrorCode::kNotFound, "Method not found.");
    if (context.request.method != "GET") {
      context.check(Role::kAdmin);
      check_is_no_page(context.request);
    }
    if (!context.options.catalog) {
      throw FailedPrecondition(
          "this server keeps no models by name: start it with muster serve --models-dir DIR");
    }
    CloudModels models(*context.options.catalog, context.request, "projects/" + project);
    if (auto answer = models.answer(*resource)) return std::move(*answer);
    return cloud_error(ErrorCode::kNotFound, "Method not found.");
  } catch (...) {
    const Description failure = muster::describe(std::current_exception());
    return cloud_error(failure.code, failure.message);
  }
}

}  // namespace muster::serving
