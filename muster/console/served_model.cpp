#include "muster/console/served_model.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/codec/model_folder.h"

namespace muster::console {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Exports of a run with this number: RUN/export/EXPORTER/NUMBER.
std::vector<Path> exports_of(const Path& run, const std::string& version) {
  std::vector<Path> found;
  std::error_code error;
  for (fs::directory_iterator it(run / "export", error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_symlink(error) || !it->is_directory(error)) continue;
    const Path folder = it->path() / version;
    if (fs::is_directory(fs::symlink_status(folder, error)) && graph::is_saved_model(folder)) {
      found.push_back(folder);
    }
  }
  return found;
}

// The record of the run that a version of a folder of models was exported by.
std::string record_of(const serving::VersionRecord& version, const RunStore& runs) {
  const json lineage = json::parse(version.lineage, nullptr, /*allow_exceptions=*/false);
  if (!lineage.is_object() || !lineage.contains("run") || !lineage["run"].is_string()) return {};
  const std::string id = runs.id_of(lineage["run"].get<std::string>());
  try {
    return id.empty() ? std::string() : runs.record(id);
  } catch (const NotFound&) {
    return {};  // The run is gone.
  }
}

std::optional<ServedModel> find_registered(const Path& models_dir, const RunStore& runs,
                                           const std::string& model, const std::string& number) {
  for (const serving::ModelRecord& record : serving::ModelFolder(models_dir).list()) {
    if (record.name != model) continue;
    for (const serving::VersionRecord& version : record.versions) {
      if (std::to_string(version.number) != number) continue;
      return ServedModel{.folder = models_dir / model / number, .record = record_of(version, runs)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ServedModel> find_served_model(const Path& models_dir, const RunStore& runs,
                                             const std::string& model, const std::string& version) {
  if (version.empty() || version.find_first_not_of("0123456789") != version.npos) {
    throw InvalidArgument("a version is a number");
  }
  if (!models_dir.empty()) {
    if (auto found = find_registered(models_dir, runs, model, version)) return found;
  }
  std::optional<ServedModel> found;
  for (const RunSummary& run : runs.list()) {
    const std::vector<Path> exports = exports_of(run.folder, version);
    if (exports.empty()) continue;
    if (found || exports.size() > 1) return std::nullopt;
    found = ServedModel{.folder = exports.front(), .record = runs.record(run.id)};
  }
  return found;
}

}  // namespace muster::console
