#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/console/run_summary.h"

namespace muster::console {

/// File of a folder with runs in which a console keeps what it has read of them.
inline constexpr const char* kRunIndexFile = ".muster_console_index";

/// A file of a run as it was when it was read.
struct SeenFile {
  /// Below the folder of the run.
  std::string name{};
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;

  bool operator==(const SeenFile&) const = default;
};

/// The files that a run is read from, as they are now: events of training and of these evaluations,
/// and the records and notes. Sorted by name.
std::vector<SeenFile> files_of(const Path& run, const std::vector<std::string>& evaluations);

/// Lists of tags, each kept once whatever the number of runs that have it. For any thread.
class RunTagSets {
 public:
  std::shared_ptr<const RunTags> shared(RunTags tags);

 private:
  std::mutex mutex_;
  std::map<RunTags, std::shared_ptr<const RunTags>> sets_;
  // How many there may be until those are looked for that no run has any more.
  std::size_t most_ = 64;
};

/// A run in the index.
struct IndexedRun {
  /// Id and folder are empty.
  RunSummary summary{};
  std::vector<SeenFile> files{};
};

/// The index of a folder with runs, by their folders below it. Empty where there is no index; one
/// that is damaged, or lines of it that are, are ignored: the runs are then read.
std::map<std::string, IndexedRun> read_run_index(const Path& root, RunTagSets& sets);
/// Replaces it in one step. Throws what the file system throws.
void write_run_index(const Path& root, const std::map<std::string, IndexedRun>& runs);

}  // namespace muster::console
