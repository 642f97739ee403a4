#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::serving {

/// Which of the versions in a model's folder are served.
struct VersionPolicy {
  enum class Kind { kLatest, kAll, kSpecific };
  Kind kind = Kind::kLatest;
  /// Number of versions to serve, for kLatest.
  std::int64_t count = 1;
  /// Versions to serve, for kSpecific.
  std::vector<std::int64_t> versions{};
  bool operator==(const VersionPolicy&) const = default;
};

struct ModelConfig {
  std::string name{};
  /// Holds the versions, each a SavedModel under its number; or is itself a SavedModel, the only
  /// version.
  Path base_path{};
  VersionPolicy policy{};
  /// The version that answers requests that name none; nothing: the newest.
  std::optional<std::int64_t> default_version{};
  /// Names for versions.
  std::map<std::string, std::int64_t, std::less<>> labels{};
  /// Shares of the requests that name no version, by label or number; they come before the default
  /// version. They need not sum to anything. Empty: one version answers all of them.
  std::map<std::string, double, std::less<>> weights{};
  bool operator==(const ModelConfig&) const = default;
};

/// Throws InvalidArgument unless every name is given once, is text without '/', ':' and control
/// characters, and every path is there.
void check_models(const std::vector<ModelConfig>& models);

/// A folder of versions, or a SavedModel, that a user means by the folder of a training: its newest
/// exporter's. Other folders stay as they are.
Path serving_folder(const Path& dir);

/// Every model of a folder that `muster models` keeps, with all its versions, under their names.
/// Models without a version are skipped.
std::vector<ModelConfig> models_in(const Path& root);

}  // namespace muster::serving
