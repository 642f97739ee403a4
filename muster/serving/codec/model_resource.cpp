#include "muster/serving/codec/model_resource.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

using Json = nlohmann::ordered_json;

// The last part of "projects/P/models/M/versions/V"; any other text as it is.
std::string bare_name(const std::string& name) {
  return name.starts_with("projects/") ? name.substr(name.rfind('/') + 1) : name;
}

void set_unless_empty(Json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

Json version_object(const std::string& parent, const std::string& model,
                    const VersionRecord& version) {
  Json object{{"name", fmt::format("{}/models/{}/versions/{}", parent, model, version.name)}};
  set_unless_empty(object, "description", version.description);
  if (version.is_default) object["isDefault"] = true;
  set_unless_empty(object, "deploymentUri", version.deployment_uri);
  set_unless_empty(object, "createTime", version.create_time);
  set_unless_empty(object, "state", version.state);
  if (version.stage != kNoStage) object["stage"] = version.stage;
  for (const StageChange& change : version.stage_changes) {
    object["stageChanges"].push_back(
        {{"stage", change.stage}, {"time", change.time}, {"reason", change.reason}});
  }
  const Json lineage = Json::parse(version.lineage, nullptr, /*allow_exceptions=*/false);
  if (lineage.is_object()) object["lineage"] = lineage;
  return object;
}

Json model_object(const std::string& parent, const ModelRecord& model) {
  Json object{{"name", fmt::format("{}/models/{}", parent, model.name)}};
  set_unless_empty(object, "description", model.description);
  set_unless_empty(object, "createTime", model.create_time);
  for (const VersionRecord& version : model.versions) {
    if (version.is_default) object["defaultVersion"] = version_object(parent, model.name, version);
  }
  if (!model.traffic_split.empty()) object["trafficSplit"] = model.traffic_split;
  return object;
}

std::string resource_text(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string text_field(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  if (!found->is_string()) throw InvalidArgument("\"{}\" must be a text", key);
  return found->get<std::string>();
}

Json object_in(std::string_view text) {
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) throw InvalidArgument("the body must be a JSON object");
  return object;
}

std::vector<StageChange> changes_in(const Json& object) {
  std::vector<StageChange> changes;
  const auto found = object.find("stageChanges");
  if (found == object.end()) return changes;
  if (!found->is_array()) throw InvalidArgument("\"stageChanges\" must be a list");
  for (const Json& one : *found) {
    if (!one.is_object()) throw InvalidArgument("a change of a stage must be a JSON object");
    changes.push_back({.stage = text_field(one, "stage"),
                       .time = text_field(one, "time"),
                       .reason = text_field(one, "reason")});
  }
  return changes;
}

VersionRecord version_from(const Json& object) {
  if (!object.is_object()) throw InvalidArgument("a version must be a JSON object");
  const std::string stage = text_field(object, "stage");
  const auto lineage = object.find("lineage");
  const auto is_default = object.find("isDefault");
  return {.name = bare_name(text_field(object, "name")),
          .description = text_field(object, "description"),
          .deployment_uri = text_field(object, "deploymentUri"),
          .create_time = text_field(object, "createTime"),
          .is_default = is_default != object.end() && *is_default == true,
          .state = text_field(object, "state"),
          .stage = stage.empty() ? kNoStage : stage,
          .stage_changes = changes_in(object),
          .lineage = lineage != object.end() && lineage->is_object() ? lineage->dump() : ""};
}

TrafficSplit split_from(const Json& object) {
  TrafficSplit split;
  const auto found = object.find("trafficSplit");
  if (found == object.end() || found->is_null()) return split;
  if (!found->is_object()) throw InvalidArgument("\"trafficSplit\" must be a JSON object");
  for (const auto& [name, weight] : found->items()) {
    if (!weight.is_number()) {
      throw InvalidArgument("\"trafficSplit\" must have a number for version {}", name);
    }
    split[name] = weight.get<double>();
  }
  return split;
}

ModelRecord model_from(const Json& object) {
  if (!object.is_object()) throw InvalidArgument("a model must be a JSON object");
  ModelRecord model{.name = bare_name(text_field(object, "name")),
                    .description = text_field(object, "description"),
                    .create_time = text_field(object, "createTime")};
  const auto version = object.find("defaultVersion");
  if (version != object.end()) model.default_version = version_from(*version).name;
  model.traffic_split = split_from(object);
  return model;
}

template <typename Record>
std::vector<Record> list_in(std::string_view text, const char* key, Record (*read)(const Json&)) {
  const Json object = object_in(text);
  std::vector<Record> records;
  const auto found = object.find(key);
  if (found == object.end()) return records;
  if (!found->is_array()) throw InvalidArgument("\"{}\" must be a list", key);
  for (const Json& one : *found) records.push_back(read(one));
  return records;
}

}  // namespace

std::string model_resource(const std::string& parent, const ModelRecord& model) {
  return resource_text(model_object(parent, model));
}

std::string version_resource(const std::string& parent, const std::string& model,
                             const VersionRecord& version) {
  return resource_text(version_object(parent, model, version));
}

std::string models_resource(const std::string& parent, const std::vector<ModelRecord>& models) {
  Json list = Json::array();
  for (const ModelRecord& model : models) list.push_back(model_object(parent, model));
  return resource_text({{"models", list}});
}

std::string versions_resource(const std::string& parent, const ModelRecord& model) {
  Json list = Json::array();
  for (const VersionRecord& version : model.versions) {
    list.push_back(version_object(parent, model.name, version));
  }
  return resource_text({{"versions", list}});
}

ModelRecord parse_model_resource(std::string_view text) { return model_from(object_in(text)); }
VersionRecord parse_version_resource(std::string_view text) {
  return version_from(object_in(text));
}
TrafficSplit parse_traffic_split(std::string_view text) {
  const Json object = object_in(text);
  if (!object.contains("trafficSplit")) {
    throw InvalidArgument("only \"trafficSplit\" of a model can be changed, and it is not given");
  }
  return split_from(object);
}
StageChange parse_stage_change(std::string_view text) {
  const Json object = object_in(text);
  return {.stage = text_field(object, "stage"), .reason = text_field(object, "reason")};
}
std::vector<ModelRecord> parse_models_resource(std::string_view text) {
  return list_in(text, "models", model_from);
}
std::vector<VersionRecord> parse_versions_resource(std::string_view text) {
  return list_in(text, "versions", version_from);
}

}  // namespace muster::serving
