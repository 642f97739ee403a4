#include "muster/console/registry_api.h"

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/json_depth.h"
#include "muster/base/log.h"
#include "muster/serving/codec/model_folder.h"
#include "muster/serving/codec/model_resource.h"

namespace muster::console {
namespace {

using nlohmann::json;

json version_object(const serving::VersionRecord& version, const RegistryApi::RunName& run_name) {
  json changes = json::array();
  for (const serving::StageChange& change : version.stage_changes) {
    changes.push_back({{"stage", change.stage}, {"time", change.time}, {"reason", change.reason}});
  }
  json out{{"name", version.name},
           {"number", version.number},
           {"description", version.description},
           {"origin", version.deployment_uri},
           {"created", version.create_time},
           {"isDefault", version.is_default},
           {"state", version.state},
           {"stage", version.stage},
           {"changes", std::move(changes)},
           {"lineage", json::object()}};
  json lineage = json::parse(version.lineage, nullptr, /*allow_exceptions=*/false);
  if (!lineage.is_object()) return out;
  const auto run = lineage.find("run");
  if (run != lineage.end() && run->is_string()) out["run"] = run_name(run->get<std::string>());
  out["lineage"] = std::move(lineage);
  return out;
}

}  // namespace

serving::HttpResponse RegistryApi::list() const {
  json models = json::array();
  for (const serving::ModelRecord& model : serving::ModelFolder(models_dir_).list()) {
    json versions = json::array();
    for (const serving::VersionRecord& version : model.versions) {
      versions.push_back(version_object(version, run_name_));
    }
    models.push_back({{"name", model.name},
                      {"description", model.description},
                      {"versions", std::move(versions)}});
  }
  return {.body = json{{"models", std::move(models)}}.dump(-1, ' ', false,
                                                           json::error_handler_t::replace)};
}

serving::HttpResponse RegistryApi::set_stage(const ApiRequest& request) const {
  if (is_json_deeper_than(kMostJsonFileDepth, request.body)) {
    throw InvalidArgument("the body must be a JSON object");
  }
  const serving::StageChange wish = serving::parse_stage_change(request.body);
  if (wish.reason.empty()) throw InvalidArgument("a change of a stage needs a reason");
  const std::string& model = request.path.at(2);
  const std::string& version = request.path.at(3);
  serving::ModelFolder(models_dir_).set_stage(model, version, wish.stage, wish.reason);
  log::info("moved version {} of model {} to stage {} for a page", version, model, wish.stage);
  return {.body = "{}"};
}

}  // namespace muster::console
