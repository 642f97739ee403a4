#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/orchestration/jobs/job.h"

namespace muster::jobs {

/// Tasks of one role, and what each of them asks for.
struct RoleTasks {
  /// As TF_CONFIG calls it: "master", "worker", "ps".
  std::string type{};
  std::int64_t count = 0;
  Resources each{};
};

/// The flags of a back end that were given, by name: {"--image", {"census:1"}}. A switch has one
/// empty value.
class FlagValues {
 public:
  void add(const std::string& flag, std::string value);
  bool has(const std::string& flag) const { return values_.contains(flag); }
  /// The last value of a flag; the default without one.
  std::string text(const std::string& flag, std::string otherwise = "") const;
  /// All values of a flag that may be repeated.
  std::vector<std::string> all(const std::string& flag) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

/// A job to be submitted, and where each of its fields came from: "config.yaml:3", "--config".
struct Submission {
  Job job{};
  std::map<std::string, std::string> origins{};
  std::vector<std::string> warnings{};
  /// The chief's first; resolve_machines() fills it.
  std::vector<RoleTasks> roles{};
  /// Number of trials of a study that run at the same time as job steps, each with the resources of
  /// the one role. 0: the job is no such study.
  std::int64_t parallel_trials = 0;
  /// Flags of the job's back end.
  FlagValues flags{};
};

}  // namespace muster::jobs
