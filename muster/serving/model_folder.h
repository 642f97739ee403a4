#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::serving {

/// A version of a model as `muster versions` shows it.
struct VersionRecord {
  /// "v1".
  std::string name{};
  /// Of its folder, MODEL/NUMBER.
  std::int64_t number = 0;
  std::string description{};
  /// Where it was copied from.
  std::string deployment_uri{};
  /// "2026-03-01T10:04:11Z".
  std::string create_time{};
  bool is_default = false;
  /// READY, or FAILED when its folder is no SavedModel.
  std::string state{};
};

struct ModelRecord {
  std::string name{};
  std::string description{};
  /// Empty while there is no version.
  std::string default_version{};
  std::string create_time{};
  /// By number.
  std::vector<VersionRecord> versions{};
};

/// Models in a folder, as Cloud ML Engine keeps them: ROOT/MODEL/NUMBER is a version, and
/// ROOT/MODEL/model.json has the names of versions and which of them is the default. A version that
/// was put there without a name is called by its number. Several processes may read it; one at a
/// time may change it.
class ModelFolder {
 public:
  explicit ModelFolder(Path root);

  /// None if there is no such folder. Throws DataLoss for a model.json that cannot be read.
  std::vector<ModelRecord> list() const;
  /// Throws NotFound.
  ModelRecord model(const std::string& name) const;
  VersionRecord version(const std::string& model, const std::string& name) const;

  /// Throws InvalidArgument for a name that is not letters, digits and '_' behind a letter,
  /// AlreadyExists.
  void create_model(const std::string& name, const std::string& description);
  /// Throws FailedPrecondition while it has versions.
  void delete_model(const std::string& name);

  /// Copies a SavedModel, or the newest of a folder of numbered ones. The first version of a model
  /// becomes its default. Throws NotFound, AlreadyExists, InvalidArgument.
  VersionRecord create_version(const std::string& model, const std::string& name,
                               const Path& origin, const std::string& description);
  VersionRecord set_default(const std::string& model, const std::string& name);
  VersionRecord set_description(const std::string& model, const std::string& name,
                                const std::string& description);
  /// Throws FailedPrecondition for the default version, unless it is the only one.
  void delete_version(const std::string& model, const std::string& name);

 private:
  Path model_path(const std::string& name) const;
  void write(const ModelRecord& model) const;

  Path root_;
};

}  // namespace muster::serving
