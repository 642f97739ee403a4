#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "muster/platform/stores/hdfs_api.h"
#include "muster/platform/stores/object_api.h"

namespace muster::stores {

/// Versioned objects of a claim as files in HDFS, where no write has a precondition. Keys are
/// paths. A file appears by a rename that fails where there is one. This process's own file is
/// changed by appending a blank; another's is replaced by the process that has taken the right to,
/// a name that only one can take.
class HdfsClaimObjects : public VersionedObjects {
 public:
  /// Names of files that are on their way begin with the object's own and this.
  static constexpr const char* kOnTheWay = ".on-its-way-";

  explicit HdfsClaimObjects(std::shared_ptr<HdfsApi> api) : api_(std::move(api)) {}

  std::optional<ObjectInfo> head(const ObjectName& name) override;
  ObjectRange get(const ObjectName& name, std::uint64_t offset, std::uint64_t length,
                  const std::string& version, const std::stop_token& stop) override;
  std::string put(const ObjectName& name, std::string_view bytes,
                  const Precondition& precondition) override;
  void remove(const ObjectName& name) override;
  /// None: files are made and renamed by the namenode, in one step.
  std::string impossible_version() const override { return ""; }

 private:
  bool is_own(const std::string& version);
  std::string touch(const ObjectName& name, const Precondition& precondition);
  void replace(const std::string& made, const ObjectName& name, const Precondition& precondition);
  static std::string unused_name(const ObjectName& name);

  const std::shared_ptr<HdfsApi> api_;
  std::mutex mutex_;
  /// Ids of files that were made here.
  std::set<std::string> own_;
};

}  // namespace muster::stores
