#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::console {

/// A file of a run, or one of its exports.
struct RunFile {
  /// Below the folder of the run.
  std::string name{};
  std::uint64_t bytes = 0;
  /// When it was last changed, in seconds since 1970.
  double time = 0;
};

/// A checkpoint: all files with its prefix.
struct RunCheckpoint {
  std::string name{};
  std::int64_t step = 0;
  std::uint64_t bytes = 0;
  double time = 0;
};

/// The content of a run's folder.
struct RunFiles {
  /// By step.
  std::vector<RunCheckpoint> checkpoints{};
  /// Files of exports are counted together: "export/best/1763197449".
  std::vector<RunFile> exports{};
  /// All others in the folder itself, by name.
  std::vector<RunFile> files{};
  /// Whether there are more than are listed.
  bool is_cut = false;
};

/// Looks at a folder of this host. Symbolic links are not followed; what goes away meanwhile is
/// missing.
RunFiles files_of_run(const Path& folder);

}  // namespace muster::console
