#include "muster/cli/remote_models.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/object_store.h"
#include "muster/cli/http_call.h"
#include "muster/serving/codec/model_resource.h"

namespace muster::cli {
namespace {

using serving::ModelRecord;
using serving::VersionRecord;

class RemoteModels final : public serving::ModelCatalog {
 public:
  explicit RemoteModels(std::string server) : server_(std::move(server)) {}

  std::vector<ModelRecord> list() const override {
    return serving::parse_models_resource(ask("GET", ""));
  }

  ModelRecord model(const std::string& name) const override {
    ModelRecord found = serving::parse_model_resource(ask("GET", path_of(name)));
    found.versions = serving::parse_versions_resource(ask("GET", path_of(name) + "/versions"));
    return found;
  }

  VersionRecord version(const std::string& model, const std::string& name) const override {
    return serving::parse_version_resource(ask("GET", path_of(model, name)));
  }

  void create_model(const std::string& name, const std::string& description) override {
    ask("POST", "", {{"name", name}, {"description", description}});
  }

  void delete_model(const std::string& name) override { ask("DELETE", path_of(name)); }

  VersionRecord create_version(const std::string& model, const std::string& name,
                               const Path& origin, const std::string& description) override {
    const Path absolute = absolute_path(origin);
    ask("POST", path_of(model) + "/versions",
        {{"name", name}, {"deploymentUri", absolute.string()}, {"description", description}});
    return version(model, name);
  }

  ModelRecord set_traffic_split(const std::string& model,
                                const serving::TrafficSplit& split) override {
    ask("PATCH", path_of(model), {{"trafficSplit", split}});
    return this->model(model);
  }

  VersionRecord set_default(const std::string& model, const std::string& name) override {
    return serving::parse_version_resource(ask("POST", path_of(model, name) + ":setDefault"));
  }

  VersionRecord set_stage(const std::string& model, const std::string& name,
                          const std::string& stage, const std::string& reason) override {
    return serving::parse_version_resource(
        ask("POST", path_of(model, name) + ":setStage", {{"stage", stage}, {"reason", reason}}));
  }

  VersionRecord set_description(const std::string& model, const std::string& name,
                                const std::string& description) override {
    ask("PATCH", path_of(model, name), {{"description", description}});
    return version(model, name);
  }

  void delete_version(const std::string& model, const std::string& name) override {
    ask("DELETE", path_of(model, name));
  }

 private:
  static std::string path_of(const std::string& model) { return "/" + path_part(model); }
  static std::string path_of(const std::string& model, const std::string& version) {
    return path_of(model) + "/versions/" + path_part(version);
  }

  std::string ask(const std::string& method, const std::string& path,
                  const nlohmann::json& body = nlohmann::json::object()) const {
    HttpReply reply = http_call(server_, method, "/v1/projects/local/models" + path, body.dump());
    if (reply.status == 200) return std::move(reply.body);
    const auto answer = nlohmann::json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
    const auto error = answer.is_object() ? answer.value("error", nlohmann::json()) : answer;
    const bool is_ours = error.is_object() && error.contains("message");
    throw FailedPrecondition("{}: {}", server_,
                             is_ours ? error["message"].get<std::string>() : reply.body);
  }

  std::string server_;
};

}  // namespace

std::unique_ptr<serving::ModelCatalog> remote_models(std::string server) {
  return std::make_unique<RemoteModels>(std::move(server));
}

}  // namespace muster::cli
