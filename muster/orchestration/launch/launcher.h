#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/orchestration/launch/local_cluster.h"
#include "muster/orchestration/launch/ports.h"
#include "muster/orchestration/launch/processors.h"

namespace muster::launch {

/// Which tasks are started again by themselves: none, or those that fail, each this many times. A
/// task that was misused (exit status 2) would fail again.
struct RestartPolicy {
  std::int64_t most_restarts = 0;
};

/// "never", "on-failure" (three times) or "on-failure:N". Throws InvalidArgument.
RestartPolicy parse_restart_policy(std::string_view text);

/// Treatment of the other tasks when the chief has ended.
enum class EndOfOthers {
  /// They may end by themselves within the grace; then workers get SIGTERM, and ps when no worker
  /// is
  /// left; what does not end within another grace is killed.
  kGrace,
  /// They are killed, as `gcloud ml-engine local train` does it.
  kKill,
};

struct LaunchOptions {
  /// Its number of workers is the most that there may be.
  LocalClusterOptions cluster{};
  /// So many are started, and the others when scale() asks for them; all without a value. Tasks get
  /// it as MUSTER_MIN_WORKERS.
  std::optional<std::int64_t> least_workers{};
  /// Tasks encrypt what they send each other: they get MUSTER_TLS=1.
  bool has_tls = false;
  /// Those that train; never where there are ps, whose work is another. They get
  /// MUSTER_HOST_PROCESSORS, the number of processors that they are on together.
  Binding binding = Binding::kAuto;
  /// Starts tasks on hosts (LocalClusterOptions::hosts), in the folder that this process is in: the
  /// words before its options.
  std::vector<std::string> ssh{"ssh"};
  /// The program and its arguments, the same for every task.
  std::vector<std::string> command{};
  std::optional<Path> working_directory{};

  /// Ports are looked for here, or anywhere.
  std::optional<PortRange> port_range{};
  /// The first of as many ports in a row, taken as they are.
  std::optional<std::uint16_t> start_port{};

  /// Gets <task>.log and <task>.pid of each task, and launch.pid.
  Path log_dir{"runlogs"};
  RestartPolicy restart{};
  std::chrono::milliseconds grace{10'000};
  /// How long an evaluator may take over the last checkpoint after the chief's end.
  std::chrono::milliseconds evaluator_grace{600'000};
  EndOfOthers end_of_others = EndOfOthers::kGrace;
  /// Ends with the tasks, after another grace, whatever they have started, in sessions of its own
  /// too: this process adopts it.
  bool ends_descendants = false;

  /// A file that gets an entry; none without a name.
  std::optional<Path> training_log{};
  std::string hypothesis{};
  /// Name of the entry; by default made of program and time.
  std::string job_name{};

  /// Called once, when all tasks have been started.
  std::function<void()> on_started{};
  /// Called with a task that failed and is not restarted, and its exit status (128 + n for signal
  /// n), unless the run was ending already.
  std::function<void(const TaskSpec& task, int status)> on_failed{};
  /// Asked about once a second: once it is true the tasks are ended as by SIGTERM.
  std::function<bool()> must_end{};
};

/// The commands that would be started, as lines for a shell.
std::string dry_run(const LaunchOptions& options);

/// Runs the cluster to its end and returns the exit status of the chief (128 + n if signal n ended
/// it), or of a ps that failed for good, which ends the run. Every run has a secret of its own,
/// which the tasks get as MUSTER_SECRET, unless that is set here. Prints the tasks' lines to
/// standard output and says on the log what happens.
///
/// A cluster of which a task fails in its first seconds because its port was taken meanwhile, or
/// with status 75 when nothing restarts it, starts again with other ports, twice at most. SIGINT,
/// SIGTERM and SIGHUP are passed on once to the tasks, to the ps when the others have ended; a
/// second one kills them. When this process dies, the tasks end too.
///
/// Call it in a process with one thread. Throws FailedPrecondition if another launch runs with this
/// log_dir.
int launch(const LaunchOptions& options);

}  // namespace muster::launch
