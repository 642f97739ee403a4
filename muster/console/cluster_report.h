#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::console {

using ReportTime = std::chrono::system_clock::time_point;

/// State of a cluster from its tasks' log lines: who takes part, in which generations, what the
/// run waited for and why, and how old gradients were. Memory does not grow with the logs.
class ClusterReport {
 public:
  struct Task {
    /// The last line that it wrote itself.
    ReportTime last_time{};
    std::string last_line{};
    /// Step in its last line that names one.
    std::optional<std::int64_t> step{};
    /// Why the run continues without it; empty if it takes part.
    std::string gone{};
    std::int64_t restarts = 0;
  };
  struct Generation {
    std::int64_t number = 0;
    ReportTime began{};
    /// "worker:0 [0, 1), worker:1 [1, 2)", as the chief logs it.
    std::string members{};
    /// How long its tasks took to be ready.
    std::optional<double> seconds{};
  };
  struct Stall {
    ReportTime began{};
    /// When the next generation was ready; nothing if it was not.
    std::optional<ReportTime> ended{};
    std::string task{};
    std::string reason{};
  };
  struct Staleness {
    std::int64_t step = 0;
    ReportTime time{};
    double mean = 0;
    std::int64_t max = 0;
  };

  /// One line of a task ("worker-replica-1"), in the order of time.
  void take(std::string_view task, ReportTime time, std::string_view message);

  const std::map<std::string, Task>& tasks() const { return tasks_; }
  const std::vector<Generation>& generations() const { return generations_; }
  const std::vector<Stall>& stalls() const { return stalls_; }
  const std::vector<Staleness>& staleness() const { return staleness_; }

 private:
  Task* task_of(std::string_view name);
  bool take_generation(ReportTime time, std::string_view message);
  bool take_stall(ReportTime time, std::string_view message);
  bool take_staleness(ReportTime time, std::string_view message);
  void take_service(std::string_view message);
  void end_stalls(ReportTime time);

  std::map<std::string, Task> tasks_;
  std::vector<Generation> generations_;
  std::vector<Stall> stalls_;
  std::vector<Staleness> staleness_;
};

}  // namespace muster::console
