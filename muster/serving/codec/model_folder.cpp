#include "muster/serving/codec/model_folder.h"

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/copy_whole_file.h"
#include "muster/base/error.h"
#include "muster/base/file_lock.h"
#include "muster/base/folder_claim.h"
#include "muster/base/object_store.h"
#include "muster/base/open_file.h"
#include "muster/base/path_below.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/serving/codec/model_files.h"
#include "muster/serving/codec/version_lineage_internal.h"

namespace muster::serving {
namespace {

using nlohmann::json;

constexpr const char* kModelFile = "model.json";
constexpr std::uint64_t kMostModelFileBytes = 16 << 20;
constexpr std::size_t kMostNameBytes = 128;
constexpr std::size_t kMostReasonBytes = 2000;
constexpr std::size_t kMostStageChanges = 50;

// Cloud ML Engine's rule, which also keeps a name inside its folder.
void check_resource_name(const char* what, const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool fits = !name.empty() && name.size() <= kMostNameBytes && is_letter(name.front()) &&
                    std::ranges::all_of(name, [&](char c) {
                      return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
                    });
  if (!fits) {
    throw InvalidArgument(
        "\"{}\" cannot be the name of a {}: it must be letters, digits and '_', begin with a "
        "letter "
        "and have at most {} characters",
        name, what, kMostNameBytes);
  }
}

std::string now_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

std::optional<std::int64_t> folder_number(const std::string& name) {
  if (name.empty() || name.size() > 18 || name.find_first_not_of("0123456789") != name.npos) {
    return std::nullopt;
  }
  return std::stoll(name);
}

/// Held while a folder of models is changed. Another change may be the copy of a large model. In a
/// store, the second writer is refused and told who the first is.
class ChangeLock {
 public:
  explicit ChangeLock(const Path& root) {
    if (is_remote(root)) {
      claim_.emplace(root);
    } else {
      folder_.emplace(root, O_RDONLY | O_DIRECTORY);
      lock_file(folder_->get(), LOCK_EX, root, std::chrono::minutes(10));
    }
  }

 private:
  std::optional<OpenFile> folder_;
  std::optional<FolderClaim> claim_;
};

bool is_model_file(const std::string& name) {
  return name.starts_with("saved_model.") || name == kTorchScriptName;
}

// Either may be in a store. What makes the folder a model is copied last.
void copy_folder(const Path& from, const Path& to) {
  FileSystem& source = file_system_for(from);
  file_system_for(to).create_directories(to);
  std::vector<std::string> names = source.list(from);
  std::ranges::stable_partition(names, std::not_fn(is_model_file));
  for (const std::string& name : names) {
    const auto status = source.status(from / name);
    if (!status) continue;  // Gone meanwhile.
    const Path target = path_below(to, name);
    if (status->is_directory) {
      copy_folder(from / name, target);
    } else {
      copy_whole_file(from / name, target);
    }
  }
}

// A version of either kind. A TorchScript file comes with its signature.
void copy_version(const Path& from, const Path& to) {
  const auto script = torch_script_in(from);
  if (!script || *script != from) return copy_folder(from, to);
  file_system_for(to).create_directories(to);
  const Path signature = torch_script_signature_path(from);
  const Path target = to / kTorchScriptName;
  if (file_exists(signature)) copy_whole_file(signature, torch_script_signature_path(target));
  copy_whole_file(from, target);
}

json version_json(const VersionRecord& version) {
  json body{{"number", version.number},
            {"description", version.description},
            {"deploymentUri", version.deployment_uri},
            {"createTime", version.create_time}};
  if (version.stage != kNoStage) body["stage"] = version.stage;
  for (const StageChange& change : version.stage_changes) {
    body["stageChanges"].push_back(
        {{"stage", change.stage}, {"time", change.time}, {"reason", change.reason}});
  }
  if (!version.lineage.empty()) body["lineage"] = json::parse(version.lineage);
  return body;
}

std::vector<StageChange> stage_changes_of(const json& version) {
  std::vector<StageChange> changes;
  for (const json& change : version.value("stageChanges", json::array())) {
    changes.push_back({.stage = change.value("stage", ""),
                       .time = change.value("time", ""),
                       .reason = change.value("reason", "")});
  }
  return changes;
}

void check_stage(const std::string& stage, const std::string& reason) {
  const auto stages = {kNoStage, kStaging, kProduction, kArchived};
  if (std::ranges::find(stages, stage) == stages.end()) {
    throw InvalidArgument("there is no stage \"{}\": it is none, staging, production or archived",
                          stage);
  }
  if (reason.size() > kMostReasonBytes) {
    throw InvalidArgument("the reason of a change of stage has at most {} bytes: {}",
                          kMostReasonBytes, reason.size());
  }
}

void move_to_stage(VersionRecord& version, const std::string& stage, const std::string& reason) {
  version.stage = stage;
  version.stage_changes.push_back({.stage = stage, .time = now_text(), .reason = reason});
  // The file stays one that can be read.
  if (version.stage_changes.size() > kMostStageChanges) {
    version.stage_changes.erase(version.stage_changes.begin());
  }
}

// The contents of model.json; versions without their states.
ModelRecord parse_model(const std::string& name, const std::string& text) {
  ModelRecord model{.name = name};
  const json body = json::parse(text);
  model.description = body.value("description", "");
  model.create_time = body.value("createTime", "");
  model.default_version = body.value("defaultVersion", "");
  model.traffic_split = body.value("trafficSplit", TrafficSplit());
  const json versions = body.value("versions", json::object());
  for (const auto& [key, value] : versions.items()) {
    model.versions.push_back({.name = key,
                              .number = value.at("number").get<std::int64_t>(),
                              .description = value.value("description", ""),
                              .deployment_uri = value.value("deploymentUri", ""),
                              .create_time = value.value("createTime", ""),
                              .stage = value.value("stage", kNoStage),
                              .stage_changes = stage_changes_of(value),
                              .lineage = value.contains("lineage") ? value["lineage"].dump() : ""});
  }
  return model;
}

VersionRecord* find_version(ModelRecord& model, const std::string& name) {
  const auto found = std::ranges::find(model.versions, name, &VersionRecord::name);
  return found == model.versions.end() ? nullptr : &*found;
}

VersionRecord& version_of(ModelRecord& model, const std::string& name) {
  VersionRecord* const found = find_version(model, name);
  if (found == nullptr) throw NotFound("model {} has no version {}", model.name, name);
  return *found;
}

void check_split(ModelRecord& model, const TrafficSplit& split) {
  double sum = 0;
  for (const auto& [name, weight] : split) {
    version_of(model, name);
    if (!std::isfinite(weight) || weight < 0) {
      throw InvalidArgument("the share of version {} must be 0 or more: {}", name, weight);
    }
    sum += weight;
  }
  if (!split.empty() && sum <= 0) {
    throw InvalidArgument("the shares of the versions of model {} are all 0", model.name);
  }
}

}  // namespace

ModelFolder::ModelFolder(Path root) : root_(std::move(root)) {}

Path ModelFolder::model_path(const std::string& name) const {
  check_resource_name("model", name);
  return root_ / name;
}

ModelRecord ModelFolder::model(const std::string& name) const {
  const Path path = model_path(name);
  auto& files = file_system_for(path);
  const auto status = files.status(path);
  if (!status || !status->is_directory) {
    throw NotFound("there is no model {} in {}", name, root_.string());
  }
  ModelRecord model{.name = name};
  if (files.status(path / kModelFile)) {
    try {
      model = parse_model(name, read_file(path / kModelFile, kMostModelFileBytes));
    } catch (const json::exception& error) {
      throw DataLoss("{} cannot be read: {}", (path / kModelFile).string(), error.what());
    }
  }
  for (const std::string& entry : files.list(path)) {
    const auto number = folder_number(entry);
    if (!number) continue;
    const auto known = std::ranges::find(model.versions, *number, &VersionRecord::number);
    if (known == model.versions.end()) {
      model.versions.push_back({.name = entry, .number = *number});
    }
  }
  std::ranges::sort(model.versions, {}, &VersionRecord::number);
  if (model.default_version.empty() && !model.versions.empty()) {
    model.default_version = model.versions.back().name;
  }
  for (VersionRecord& version : model.versions) {
    const bool is_whole = is_version(path / std::to_string(version.number));
    version.state = is_whole ? "READY" : "FAILED";
    version.is_default = version.name == model.default_version;
  }
  return model;
}

std::vector<ModelRecord> ModelFolder::list() const {
  std::vector<ModelRecord> models;
  auto& files = file_system_for(root_);
  const auto root = files.status(root_);
  if (!root || !root->is_directory) return models;
  for (const std::string& name : files.list(root_)) {
    const auto status = files.status(root_ / name);
    if (!status || !status->is_directory) continue;
    try {
      models.push_back(model(name));
    } catch (const InvalidArgument&) {
      // A folder with another kind of name is no model.
      continue;
    }
  }
  return models;
}

VersionRecord ModelFolder::version(const std::string& model_name, const std::string& name) const {
  ModelRecord found = model(model_name);
  return version_of(found, name);
}

void ModelFolder::write(const ModelRecord& model) const {
  json versions = json::object();
  for (const VersionRecord& version : model.versions) {
    versions[version.name] = version_json(version);
  }
  json body{{"description", model.description},
            {"createTime", model.create_time},
            {"defaultVersion", model.default_version},
            {"versions", versions}};
  if (!model.traffic_split.empty()) body["trafficSplit"] = model.traffic_split;
  write_file_atomically(model_path(model.name) / kModelFile, body.dump(2) + "\n");
}

void ModelFolder::create_model(const std::string& name, const std::string& description) {
  const Path path = model_path(name);
  file_system_for(path).create_directories(root_);
  const ChangeLock lock(root_);
  if (file_exists(path))
    throw AlreadyExists("there is a model {} in {} already", name, root_.string());
  file_system_for(path).create_directories(path);
  write({.name = name, .description = description, .create_time = now_text()});
}

void ModelFolder::delete_model(const std::string& name) {
  model(name);  // Throws where there is none, and with it nothing to lock.
  const ChangeLock lock(root_);
  const ModelRecord found = model(name);
  if (!found.versions.empty()) {
    throw FailedPrecondition("model {} has {} versions; delete them first", name,
                             found.versions.size());
  }
  file_system_for(root_).remove_all(model_path(name));
}

VersionRecord ModelFolder::create_version(const std::string& model_name, const std::string& name,
                                          const Path& origin, const std::string& description) {
  check_resource_name("version", name);
  model(model_name);
  const ChangeLock lock(root_);
  ModelRecord found = model(model_name);
  if (find_version(found, name) != nullptr) {
    throw AlreadyExists("model {} has a version {} already", model_name, name);
  }
  const Path source = is_version(origin) ? origin : graph::latest_export(origin);
  if (source.empty()) {
    throw NotFound("{} holds neither saved_model.pb nor model.pt nor folders of numbers that do",
                   origin.string());
  }
  const std::int64_t number = found.versions.empty() ? 1 : found.versions.back().number + 1;
  const Path path = model_path(model_name);
  const Path target = path / std::to_string(number);
  // No folder is renamed in an object store: there, one is a version when its model is there.
  const bool in_objects = object_store_for(path) != nullptr;
  const Path filled = in_objects ? target : path / fmt::format("temp-{}", number);
  file_system_for(path).remove_all(filled);
  if (!in_objects) copy_version(source, filled);
  // Under its number at last: a server sees the whole version or none. Its name is written first,
  // so that it never has another.
  VersionRecord made{.name = name,
                     .number = number,
                     .description = description,
                     .deployment_uri = absolute_path(origin).string(),
                     .create_time = now_text(),
                     .lineage = lineage_of(source)};
  if (found.versions.empty()) found.default_version = name;
  found.versions.push_back(made);
  write(found);
  if (in_objects) {
    copy_version(source, target);
  } else {
    publish_directory(filled, target);
  }
  return version(model_name, name);
}

VersionRecord ModelFolder::set_default(const std::string& model_name, const std::string& name) {
  model(model_name);
  const ChangeLock lock(root_);
  ModelRecord found = model(model_name);
  version_of(found, name);
  found.default_version = name;
  found.traffic_split.clear();
  write(found);
  return version(model_name, name);
}

VersionRecord ModelFolder::set_stage(const std::string& model_name, const std::string& name,
                                     const std::string& stage, const std::string& reason) {
  check_stage(stage, reason);
  model(model_name);
  const ChangeLock lock(root_);
  ModelRecord found = model(model_name);
  VersionRecord& moved = version_of(found, name);
  if (stage == kArchived && moved.is_default && found.versions.size() > 1) {
    throw FailedPrecondition(
        "{} is the default version of model {} and answers requests; promote another first: muster "
        "versions promote VERSION --model {} --stage production",
        name, model_name, model_name);
  }
  if (stage == kStaging || stage == kProduction) {
    for (VersionRecord& other : found.versions) {
      if (other.name == name || other.stage != stage) continue;
      move_to_stage(other, kArchived, fmt::format("{} took its place in {}", name, stage));
    }
  }
  move_to_stage(moved, stage, reason);
  if (stage == kProduction) {
    found.default_version = name;
    found.traffic_split.clear();
  }
  write(found);
  return version(model_name, name);
}

ModelRecord ModelFolder::set_traffic_split(const std::string& model_name,
                                           const TrafficSplit& split) {
  model(model_name);
  const ChangeLock lock(root_);
  ModelRecord found = model(model_name);
  check_split(found, split);
  found.traffic_split = split;
  write(found);
  return found;
}

VersionRecord ModelFolder::set_description(const std::string& model_name, const std::string& name,
                                           const std::string& description) {
  model(model_name);
  const ChangeLock lock(root_);
  ModelRecord found = model(model_name);
  version_of(found, name).description = description;
  write(found);
  return version(model_name, name);
}

void ModelFolder::delete_version(const std::string& model_name, const std::string& name) {
  model(model_name);
  const ChangeLock lock(root_);
  ModelRecord found = model(model_name);
  const VersionRecord gone = version_of(found, name);
  if (gone.is_default && found.versions.size() > 1) {
    throw FailedPrecondition(
        "{} is the default version of model {}; make another the default first: muster versions "
        "set-default VERSION --model {}",
        name, model_name, model_name);
  }
  if (const auto share = found.traffic_split.find(name);
      share != found.traffic_split.end() && share->second > 0) {
    throw FailedPrecondition(
        "{} has a share of the requests to model {}; take it away first: muster models update {} "
        "--clear-traffic-split",
        name, model_name, model_name);
  }
  found.traffic_split.erase(name);
  std::erase_if(found.versions, [&](const VersionRecord& one) { return one.name == name; });
  if (found.versions.empty()) found.default_version.clear();
  write(found);
  const Path folder = model_path(model_name) / std::to_string(gone.number);
  if (object_store_for(root_) != nullptr && file_exists(folder)) {
    graph::remove_export(folder);
  } else {
    file_system_for(root_).remove_all(folder);
  }
}

}  // namespace muster::serving
