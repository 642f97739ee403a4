#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/open_file.h"
#include "muster/serving/batch/batch_job.h"

/// Instances that end the process which answers them. A process writes down which ones it is at;
/// who sees it die adds that to the deaths of their shard; who takes the shard over halves groups
/// that are deadly, until a single instance is, which gets a line among the errors.
namespace muster::serving {

/// Instances that are answered together, by their numbers in the job.
struct InstanceGroup {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  bool operator==(const InstanceGroup&) const = default;
};

/// Which group this process is at, for those that outlive it. Belongs to one thread.
class GroupMark {
 public:
  GroupMark(const Path& output_path, std::uint64_t shard);

  void begin(const InstanceGroup& group) const;
  void end() const;

 private:
  void write(const InstanceGroup& group) const;

  OpenFile file_;
};

/// A group that processes died of.
struct GroupDeaths {
  InstanceGroup group{};
  std::uint64_t deaths = 0;
  /// Signal of the last death: "SIGFPE".
  std::string signal{};
  /// Whether it is not answered any more: a fault of the process (SIGFPE, SIGSEGV and the like)
  /// suffices, while others, such as SIGKILL, may have come from elsewhere and have to come three
  /// times.
  bool is_deadly = false;

  bool operator==(const GroupDeaths&) const = default;
};

/// Those of a shard, in any order. Throws DataLoss for a file that is damaged.
std::vector<GroupDeaths> read_deaths(const Path& output_path, std::uint64_t shard);

/// To be called once for a process that a signal has ended: adds its death to the group that it was
/// at. Nothing if it was at none.
std::optional<GroupDeaths> add_death(const Path& output_path, const BatchJob& job, pid_t process,
                                     int signal);

}  // namespace muster::serving
