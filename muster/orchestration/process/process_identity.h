#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::process {

/// A process, told apart from a later one with the same number by when it started.
struct ProcessIdentity {
  pid_t pid = 0;
  /// In clock ticks since the host came up.
  std::uint64_t start_ticks = 0;
  /// Which start of the host.
  std::string boot_id{};

  bool operator==(const ProcessIdentity&) const = default;
};

/// Nothing if there is no such process, or if it has ended and only waits to be reaped.
std::optional<ProcessIdentity> identify(pid_t pid);

/// Whether this very process still runs.
bool is_alive(const ProcessIdentity& process);

/// A file whose first line is the number alone; the second says when the process started.
void write_pid_file(const Path& path, const ProcessIdentity& process);

/// Nothing if the file is missing or no pid file of ours.
std::optional<ProcessIdentity> read_pid_file(const Path& path);

/// NAME.pid and the process that it names, which may have ended.
struct PidFile {
  std::string name{};
  Path path{};
  ProcessIdentity identity{};
};

/// Those of a folder, by name.
std::vector<PidFile> read_pid_files(const Path& folder);

}  // namespace muster::process
