#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::serving {

/// How far a version has come: nothing said, tried out, answering, no longer of use.
inline constexpr const char* kNoStage = "none";
inline constexpr const char* kStaging = "staging";
inline constexpr const char* kProduction = "production";
inline constexpr const char* kArchived = "archived";

/// A change of the stage of a version.
struct StageChange {
  std::string stage{};
  /// "2026-03-01T10:04:11Z".
  std::string time{};
  /// The reason, as the person who made the change gave it.
  std::string reason{};
};

/// A version of a model as `muster versions` shows it.
struct VersionRecord {
  /// "v1".
  std::string name{};
  /// Number of the version, which names its folder: MODEL/NUMBER.
  std::int64_t number = 0;
  std::string description{};
  /// Where it was copied from.
  std::string deployment_uri{};
  /// "2026-03-01T10:04:11Z".
  std::string create_time{};
  bool is_default = false;
  /// READY, or FAILED when its folder is no SavedModel.
  std::string state{};
  std::string stage = kNoStage;
  /// Oldest first.
  std::vector<StageChange> stage_changes{};
  /// Where it comes from, a JSON object: the run's folder, its record in muster.json without
  /// arguments and environment. Empty where its origin lies in no run.
  std::string lineage{};
};

/// Weights by the names of versions.
using TrafficSplit = std::map<std::string, double, std::less<>>;

struct ModelRecord {
  std::string name{};
  std::string description{};
  /// Empty while there is no version.
  std::string default_version{};
  std::string create_time{};
  /// By number.
  std::vector<VersionRecord> versions{};
  /// Shares of the requests that name no version, by the version's name, as Vertex AI has them;
  /// empty: the default version answers all of them.
  TrafficSplit traffic_split{};
};

/// Models and their versions, as Cloud ML Engine keeps them.
class ModelCatalog {
 public:
  virtual ~ModelCatalog() = default;

  virtual std::vector<ModelRecord> list() const = 0;
  /// Throws NotFound.
  virtual ModelRecord model(const std::string& name) const = 0;
  virtual VersionRecord version(const std::string& model, const std::string& name) const = 0;

  /// Throws InvalidArgument for a name that is not letters, digits and '_' after a letter,
  /// AlreadyExists.
  virtual void create_model(const std::string& name, const std::string& description) = 0;
  /// Throws FailedPrecondition while it has versions.
  virtual void delete_model(const std::string& name) = 0;

  /// Copies a SavedModel, or the newest of a folder of numbered ones. The first version of a model
  /// becomes its default. Throws NotFound, AlreadyExists, InvalidArgument.
  virtual VersionRecord create_version(const std::string& model, const std::string& name,
                                       const Path& origin, const std::string& description) = 0;
  /// Shares the requests that name no version among versions; an empty split ends that. Throws
  /// NotFound for a version that is not there, InvalidArgument for weights that are no shares.
  virtual ModelRecord set_traffic_split(const std::string& model, const TrafficSplit& split) = 0;
  /// Ends a split too: the default version answers all requests that name none.
  virtual VersionRecord set_default(const std::string& model, const std::string& name) = 0;
  /// Moves a version to a stage. One version at most is in staging, and one in production: the one
  /// that was there is archived. The one in production becomes the default. Throws NotFound,
  /// InvalidArgument for a stage that there is not, and FailedPrecondition where the default
  /// version would be archived.
  virtual VersionRecord set_stage(const std::string& model, const std::string& name,
                                  const std::string& stage, const std::string& reason) = 0;
  virtual VersionRecord set_description(const std::string& model, const std::string& name,
                                        const std::string& description) = 0;
  /// Throws FailedPrecondition for the default version, unless it is the only one, and for one that
  /// has a share of the traffic.
  virtual void delete_version(const std::string& model, const std::string& name) = 0;
};

/// In a folder: ROOT/MODEL/NUMBER is a version, and ROOT/MODEL/model.json has the names of versions
/// and which of them is the default. A version that was put there without a name is called by its
/// number. Several processes and threads may read and change it: changes wait for each other.
class ModelFolder final : public ModelCatalog {
 public:
  explicit ModelFolder(Path root);

  /// None if there is no such folder. Throws DataLoss for a model.json that cannot be read.
  std::vector<ModelRecord> list() const override;
  ModelRecord model(const std::string& name) const override;
  VersionRecord version(const std::string& model, const std::string& name) const override;

  void create_model(const std::string& name, const std::string& description) override;
  void delete_model(const std::string& name) override;
  VersionRecord create_version(const std::string& model, const std::string& name,
                               const Path& origin, const std::string& description) override;
  ModelRecord set_traffic_split(const std::string& model, const TrafficSplit& split) override;
  VersionRecord set_default(const std::string& model, const std::string& name) override;
  VersionRecord set_stage(const std::string& model, const std::string& name,
                          const std::string& stage, const std::string& reason) override;
  VersionRecord set_description(const std::string& model, const std::string& name,
                                const std::string& description) override;
  void delete_version(const std::string& model, const std::string& name) override;

 private:
  Path model_path(const std::string& name) const;
  void write(const ModelRecord& model) const;

  Path root_;
};

}  // namespace muster::serving
