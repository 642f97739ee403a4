#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "muster/base/file_system.h"
#include "muster/data/summary/machine_use.h"

namespace muster {

struct TaskSamplerOptions {
  /// Folder of the event file, which is made with the first sample.
  Path folder{};
  std::chrono::milliseconds period{10'000};
  /// The step that samples are written at. Called from the sampler's thread.
  std::function<std::int64_t()> step{};
  /// Values beside those of the machine; may be empty. Called from the sampler's thread.
  std::function<NamedValues()> more{};
};

/// While it lives, writes what this task takes of its machine to an event file, from a thread of
/// its own. A failure is logged once, and ends the sampling alone.
class TaskSampler {
 public:
  explicit TaskSampler(TaskSamplerOptions options);

  /// The time between two samples that MUSTER_MACHINE_SECONDS says; 10 s where it is not set, and
  /// nothing where it is 0.
  static std::optional<std::chrono::milliseconds> period();
  /// Folder of the samples of a task of a run: machine.worker_0 of the task "worker:0",
  /// machine.local of a process alone, whose name is empty.
  static Path folder_of(const Path& model_dir, const std::string& task);

 private:
  void run(const std::stop_token& stop) const;

  const TaskSamplerOptions options_;
  std::jthread thread_;
};

}  // namespace muster
