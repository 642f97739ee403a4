#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/orchestration/jobs/job.h"

namespace muster::jobs {

/// Jobs in a folder: one folder per job with job.json in it, written so that it is whole at any
/// time. Any number of processes of one host may use it at once.
///
///     JOBS/supervisor.lock, supervisor.pid, supervisor.log
///     JOBS/NAME/job.json               the job, see docs/formats/jobs.md
///               environment            NAME=value of the submitting process, zeros between
///               program/PROGRAM        a copy of the program, where the job keeps one
///               run.lock, run.pid      held by the process that runs it
///               service.log            the log of that process
///               attempts/N/TASK.log    what each task printed, by attempt
class JobStore {
 public:
  /// $MUSTER_JOBS_DIR, or muster/jobs in $XDG_STATE_HOME or ~/.local/state.
  static Path default_folder();

  /// `supervise_command` is the program and its arguments that call supervise() for the folder;
  /// without one this process starts no supervisor.
  explicit JobStore(const Path& folder, std::vector<std::string> supervise_command = {});

  const Path& folder() const { return folder_; }
  Path folder_of(const std::string& name) const { return folder_ / name; }
  const std::vector<std::string>& supervise_command() const { return supervise_command_; }

  /// Has the job keep a copy of its program, which create() makes: a rebuild changes nothing for it
  /// then.
  void keep_program(Job& job) const;

  /// The job appears with all its files or not at all. Throws AlreadyExists, and
  /// FailedPrecondition while processes of an earlier job of that name run on this host.
  void create(const Job& job, const std::vector<std::string>& environment) const;
  /// Throws NotFound, with the nearest name there is.
  Job read(const std::string& name) const;
  std::vector<std::string> environment_of(const std::string& name) const;
  /// All jobs, newest first. One that cannot be read is reported on the log and skipped.
  std::vector<Job> list() const;
  /// The names in the folder, sorted.
  std::vector<std::string> names() const;

  /// Lets `change` change the job while no other process does, and keeps it if it has. Returns what
  /// is kept.
  Job change(const std::string& name, const std::function<void(Job&)>& change) const;

  /// Throws FailedPrecondition for a job that is not over.
  void remove(const std::string& name) const;

  /// Removes what submits that were killed left behind.
  void remove_leftovers() const;

 private:
  Path folder_;
  std::vector<std::string> supervise_command_;
};

/// A lock of a file that this process holds until the end of the scope or its own end.
class HeldLock {
 public:
  /// Nothing when another process holds it for longer than a look at it takes.
  static std::optional<HeldLock> take(const Path& file);
  /// Whether some process holds it now.
  static bool is_held(const Path& file);
  /// Whether the file of that name is still the one that is locked.
  bool is_of(const Path& file) const;

  HeldLock(HeldLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  HeldLock& operator=(HeldLock&&) = delete;
  ~HeldLock();

 private:
  explicit HeldLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

/// "MUSTER_JOB=" and the job's folder: in the environment of all that a job starts on this host, by
/// which it is found when the process that ran it was killed.
std::string job_entry(const JobStore& store, const std::string& name);

/// That of the process that runs the job.
Path run_lock_of(const JobStore& store, const std::string& name);

}  // namespace muster::jobs
