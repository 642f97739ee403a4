#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::launch {

/// The seeds' diary of runs: training_log.md gets an entry a launch, to which people add what they
/// expected and what came out.
struct TrainingLogEntry {
  /// "local-master_20260301_10_04_11".
  std::string job{};
  /// The program and its arguments; learning rate, epochs and batch sizes are taken from there.
  std::vector<std::string> command{};
  std::string hypothesis{};
};

/// `<environment>-<prefix>_<YYYYmmdd_HH_MM_SS>`, in local time.
std::string job_name(const std::string& environment, const std::string& prefix,
                     std::chrono::system_clock::time_point time);

/// The entry as it is written.
std::string to_markdown(const TrainingLogEntry& entry);

/// One entry in the file, which is made if need be. Appends the outcome at the end of the run if
/// the entry is still the last thing in the file: text added meanwhile stays as it is.
class TrainingLog {
 public:
  TrainingLog(Path file, const TrainingLogEntry& entry);

  void add_outcome(const std::string& outcome);

 private:
  Path file_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace muster::launch
