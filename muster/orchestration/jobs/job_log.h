#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "muster/orchestration/jobs/job_store.h"

namespace muster::jobs {

/// A line of a task of a job.
struct LogLine {
  /// "INFO", "WARNING", ..., "DEFAULT" for a line that does not say.
  std::string_view severity{};
  Time time{};
  /// "worker-replica-1", or "service" for what the process that runs the job says.
  std::string_view task{};
  std::string_view message{};
};

/// "INFO\t2026-03-01 10:04:11 +0000\tmaster-replica-0\t\tsaved checkpoint ...": as gcloud prints
/// it, with an empty trial.
std::string to_text(const LogLine& line);

/// "worker:1", "worker-replica-1" and "worker1" are one: the second. A name without a number is
/// that of replica 0. Throws InvalidArgument for no task's name.
std::string task_name(std::string_view word);

/// The local time in front of a line of muster's logger; nothing for any other line.
std::optional<Time> logger_time(std::string_view line);

/// Timestamp that `kubectl logs --timestamps` puts before a line:
/// "2026-03-01T10:04:11.532123456Z ".
struct KubectlStamp {
  std::chrono::nanoseconds since_epoch{};
  /// Where the line itself begins.
  std::size_t bytes = 0;
};

/// Nothing for a line without one.
std::optional<KubectlStamp> kubectl_stamp(std::string_view line);

/// Reads the lines of all tasks of a job, merged by time, and follows them. Lines of muster's
/// logger say when they were written, and so do those that kubectl read; others have the time of
/// the line before them, or the time at which a follower read them. A line that comes late is
/// printed late, never dropped.
class JobLog {
 public:
  /// Reads the lines of one task alone, if `task` is given, as task_name() returns it.
  JobLog(const JobStore& store, std::string name, std::optional<std::string> task);
  ~JobLog();

  /// Hands on the lines that came since the last call. `is_last` says that no more will come: then
  /// also those without an end of line. Views stay valid during the call.
  void poll(const std::function<void(const LogLine&)>& take, bool is_last);

 private:
  class Source;

  void find_sources();

  const JobStore& store_;
  const std::string name_;
  const std::optional<std::string> task_;
  std::map<Path, Source> sources_;
  bool follows_ = false;
};

}  // namespace muster::jobs
