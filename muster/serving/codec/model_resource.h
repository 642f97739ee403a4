#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/codec/model_folder.h"

/// Models and versions as the resources of Cloud ML Engine's API, in JSON.
namespace muster::serving {

/// `parent` is "projects/P".
std::string model_resource(const std::string& parent, const ModelRecord& model);
std::string version_resource(const std::string& parent, const std::string& model,
                             const VersionRecord& version);
/// {"models": [...]}, {"versions": [...]}.
std::string models_resource(const std::string& parent, const std::vector<ModelRecord>& models);
std::string versions_resource(const std::string& parent, const ModelRecord& model);

/// Parse resources from outside; versions have no numbers in them. Throw InvalidArgument for text
/// that is no such resource.
ModelRecord parse_model_resource(std::string_view text);
VersionRecord parse_version_resource(std::string_view text);
std::vector<ModelRecord> parse_models_resource(std::string_view text);
std::vector<VersionRecord> parse_versions_resource(std::string_view text);
/// {"stage": "production", "reason": "..."}. Throws InvalidArgument.
StageChange parse_stage_change(std::string_view text);
/// The split in the change of a model; null is an empty one. Throws InvalidArgument for a change
/// without a split.
TrafficSplit parse_traffic_split(std::string_view text);

}  // namespace muster::serving
