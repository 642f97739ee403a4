#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/data/summary/recorded_runs.h"
#include "muster/serving/codec/version_lineage_internal.h"

namespace muster::serving {
namespace {

using nlohmann::json;

// RUN/export/EXPORTER/NUMBER
constexpr int kMostFoldersAbove = 4;
constexpr std::size_t kMostLineageBytes = std::size_t{16} << 10;

json lineage_json(const Path& run, const json& record) {
  json lineage{{"run", run.string()}};
  for (const char* key : {"began_ns", "ended_ns", "global_step", "seed", "hparams", "metrics",
                          "program", "host", "files"}) {
    if (record.contains(key)) lineage[key] = record[key];
  }
  const auto git = record.find("git");
  if (git != record.end() && git->is_object() && git->contains("commit")) {
    lineage["commit"] = (*git)["commit"];
  }
  return lineage;
}

}  // namespace

std::string lineage_of(const Path& saved_model) {
  Path folder = absolute_path(saved_model);
  try {
    for (int i = 0; i < kMostFoldersAbove && folder.has_relative_path(); ++i) {
      folder = folder.parent_path();
      const auto records = recorded_runs(folder);
      if (records.empty()) continue;
      json lineage = lineage_json(folder, json::parse(records.back()));
      // The file of a model stays small, whatever a run has read.
      for (const char* key : {"files", "hparams", "metrics"}) {
        if (lineage.dump().size() > kMostLineageBytes) lineage.erase(key);
      }
      std::string text = lineage.dump();
      return text.size() > kMostLineageBytes ? std::string() : text;
    }
  } catch (const Error& error) {
    log::warning("the run of {} is not noted: {}", saved_model.string(), error.what());
  }
  return {};
}

}  // namespace muster::serving
