#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

/// The tasks of one job: index to "host:port". Indices may have gaps, since a worker needs to know
/// only itself and the ps.
using JobTasks = std::map<std::int64_t, std::string>;

/// Which tasks there are and where: job to index to address. A value.
class ClusterSpec {
 public:
  using Jobs = std::map<std::string, JobTasks, std::less<>>;

  ClusterSpec() = default;
  /// Jobs without any task are dropped. Throws InvalidArgument for a job without a name, a
  /// negative index, or an address that is not "host:port", naming the job and the index.
  explicit ClusterSpec(Jobs jobs);

  bool empty() const { return jobs_.empty(); }
  const Jobs& jobs() const { return jobs_; }
  bool has_job(std::string_view job) const { return jobs_.contains(job); }
  /// How many tasks the job lists; 0 if there is no such job.
  std::int64_t count(std::string_view job) const;
  /// How many tasks there are in all jobs.
  std::int64_t count() const;
  /// One past the job's highest index, which gaps make larger than its count.
  std::int64_t index_end(std::string_view job) const;
  std::optional<std::string> address(std::string_view job, std::int64_t index) const;

  /// For messages: {"chief": ["a:1"], "worker": {"0": "b:1", "7": "c:1"}}. A job without gaps is a
  /// list.
  std::string to_string() const;

  bool operator==(const ClusterSpec&) const = default;

 private:
  Jobs jobs_;
};

}  // namespace muster
