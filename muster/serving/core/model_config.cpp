#include "muster/serving/core/model_config.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "muster/base/error.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/serving/codec/model_files.h"
#include "muster/serving/codec/model_folder.h"
#include "muster/serving/core/version_rule.h"

namespace muster::serving {
namespace {

void check_name(const std::string& name) {
  const bool has_control = std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (name.empty() || name == "." || name == ".." || has_control ||
      name.find_first_of("/:") != name.npos) {
    throw InvalidArgument("model name \"{}\" must be text without '/', ':' and control characters",
                          name);
  }
}

void check_weights(const ModelConfig& model) {
  double sum = 0;
  for (const auto& [name, weight] : model.weights) {
    if (!number_of_name(model, name)) {
      throw InvalidArgument(
          "model {}: version_weights names \"{}\", which is none of its labels "
          "and no number of a version",
          model.name, name);
    }
    if (!std::isfinite(weight) || weight < 0) {
      throw InvalidArgument("model {}: the weight of version {} must be 0 or more: {}", model.name,
                            name, weight);
    }
    sum += weight;
  }
  if (!model.weights.empty() && sum <= 0) {
    throw InvalidArgument("model {}: all weights of its versions are 0", model.name);
  }
}

}  // namespace

void check_models(const std::vector<ModelConfig>& models) {
  std::set<std::string_view> names;
  for (const ModelConfig& model : models) {
    check_name(model.name);
    if (!names.insert(model.name).second) {
      throw InvalidArgument("Illegal to list model {} multiple times in config list", model.name);
    }
    if (model.base_path.empty()) {
      throw InvalidArgument("model {} has no base path", model.name);
    }
    if (model.policy.kind == VersionPolicy::Kind::kSpecific && model.policy.versions.empty()) {
      throw InvalidArgument("model {} names no version to serve", model.name);
    }
    if (model.policy.count < 1) {
      throw InvalidArgument("model {} must serve at least one version, not {}", model.name,
                            model.policy.count);
    }
    check_weights(model);
  }
}

Path serving_folder(const Path& dir) {
  if (is_version(dir) || !graph::exports_in(dir).empty()) return dir;
  const Path base = dir / "export";
  if (!file_exists(base)) return dir;
  Path newest;
  std::int64_t newest_ns = 0;
  for (const std::string& name : file_system_for(base).list(base)) {
    const Path found = graph::latest_export(base / name);
    if (found.empty()) continue;
    const auto status = file_system_for(found).status(found);
    const std::int64_t modified = status ? status->modified_ns : 0;
    if (!newest.empty() && modified <= newest_ns) continue;
    newest = base / name;
    newest_ns = modified;
  }
  return newest.empty() ? dir : newest;
}

std::vector<ModelConfig> models_in(const Path& root) {
  std::vector<ModelConfig> models;
  for (const serving::ModelRecord& record : serving::ModelFolder(root).list()) {
    if (record.versions.empty()) continue;
    ModelConfig& model = models.emplace_back();
    model.name = record.name;
    model.base_path = root / record.name;
    model.policy.kind = VersionPolicy::Kind::kAll;
    for (const serving::VersionRecord& version : record.versions) {
      model.labels[version.name] = version.number;
      if (version.is_default) model.default_version = version.number;
    }
    // A version that is called as a stage keeps its name.
    for (const serving::VersionRecord& version : record.versions) {
      if (version.stage == kStaging || version.stage == kProduction) {
        model.labels.emplace(version.stage, version.number);
      }
    }
    // A version of the split may have been removed by hand.
    for (const auto& [version, weight] : record.traffic_split) {
      if (model.labels.contains(version)) model.weights[version] = weight;
    }
  }
  return models;
}

}  // namespace muster::serving
