#include "muster/orchestration/jobs/job_runner.h"

#include <fmt/core.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/program.h"
#include "muster/base/wait.h"
#include "muster/orchestration/jobs/machines.h"
#include "muster/orchestration/launch/launcher.h"
#include "muster/orchestration/launch/stop.h"
#include "muster/orchestration/process/process_identity.h"
#include "muster/orchestration/process/process_tree.h"

namespace muster::jobs {
namespace {

// Retries of the whole job, after the restarts of its tasks.
constexpr std::int64_t kMostRetries = 3;
constexpr std::chrono::milliseconds kLeftoverNap{20};

Path run_pid_file(const JobStore& store, const std::string& name) {
  return store.folder_of(name) / "run.pid";
}

// Blocked before any thread is made, these wait for the launcher's queue; one that comes before or
// after it does not end this process between two states of the job.
void hold_signals() {
  sigset_t held;
  ::sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&held, signal);
  ::sigprocmask(SIG_BLOCK, &held, nullptr);
}

void take_environment(const std::vector<std::string>& variables) {
  ::clearenv();
  for (const std::string& entry : variables) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
}

bool some_task_runs(const Path& folder) {
  return std::ranges::any_of(process::read_pid_files(folder), [](const process::PidFile& file) {
    return process::is_alive(file.identity);
  });
}

// The tasks of a launcher that was killed got SIGTERM from the kernel, and may be saving: another
// signal would cut that short.
void end_left_tasks(const Path& folder, std::chrono::milliseconds grace) {
  if (!file_exists(folder)) return;
  const Deadline deadline = Deadline::after(grace);
  while (some_task_runs(folder) && !deadline.expired()) std::this_thread::sleep_for(kLeftoverNap);
  for (const std::string& line : launch::stop({.log_dir = folder, .grace = grace})) {
    log::warning("{}, which outlived the process that ran the job", line);
  }
}

// Ends processes that tasks had started in sessions of their own.
void end_left_processes(const std::string& entry, std::chrono::milliseconds grace) {
  process::end_leftovers(entry, grace, "the job", [](pid_t left) {
    log::warning("ending process {}, which outlived the process that ran the job", left);
  });
}

launch::LaunchOptions launch_options(const Job& job, const Path& logs) {
  const LocalRun& run = job.local;
  launch::LaunchOptions options;
  options.cluster.chief = run.chief;
  options.cluster.is_single = run.is_single;
  options.cluster.workers = run.workers;
  options.cluster.ps = run.ps;
  options.cluster.evaluators = run.evaluators;
  // A job sees the GPUs that it was given and no others.
  if (this_host().gpus > 0) options.cluster.gpus = deal_gpus(run);
  options.command = run.command;
  options.working_directory = run.working_directory;
  options.log_dir = logs;
  options.restart.most_restarts = run.most_restarts;
  options.grace = run.grace;
  options.ends_descendants = true;
  return options;
}

void finish(Job& job, State state, std::string message) {
  job.state = state;
  job.end_time = std::chrono::system_clock::now();
  job.local.gpus.clear();
  if (!message.empty()) job.error_message = std::move(message);
}

// Updates the job by the exit status of a run.
void take_status(Job& job, int status, const std::string& failure) {
  job.local.exit_status = status;
  if (job.state == State::kCancelling) return finish(job, State::kCancelled, "");
  if (status == 0) return finish(job, State::kSucceeded, "");
  const bool asks_for_retry = status == kExitTryAgain || status > kStatusOfSignals;
  if (asks_for_retry && job.local.retries < kMostRetries) {
    ++job.local.retries;
    job.state = State::kQueued;
    job.local.gpus.clear();
    log::warning("the job is queued again, retry {} of {}: {}", job.local.retries, kMostRetries,
                 failure);
    return;
  }
  finish(job, State::kFailed, failure);
}

class JobRun {
 public:
  JobRun(const JobStore& store, const std::string& name, const HeldLock& lock)
      : store_(store), name_(name), lock_(lock) {}

  /// The job, if it is over now and was not before.
  std::optional<Job> run() {
    // Before the state says that it runs, so that a cancel from then on finds the process.
    process::write_pid_file(run_pid_file(store_, name_), *process::identify(::getpid()));
    const Job before = store_.read(name_);
    if (!is_final(before.state)) {
      end_left_tasks(attempt_folder(store_, name_, before.local.attempts), before.local.grace);
      end_left_processes(job_entry(store_, name_), before.local.grace);
      if (const Job job = prepare(); job.state == State::kPreparing) launch_tasks(job);
    }
    if (!has_folder()) return std::nullopt;
    file_system_for(store_.folder()).remove(run_pid_file(store_, name_));
    Job after = store_.read(name_);
    if (is_final(before.state) || !is_final(after.state)) return std::nullopt;
    return after;
  }

 private:
  // A user may delete the folder of a job that runs, and submit another one of that name: nothing
  // of this one is written there.
  bool has_folder() const { return lock_.is_of(run_lock_of(store_, name_)); }

  Job prepare() {
    return store_.change(name_, [](Job& job) {
      if (job.state == State::kCancelling) return finish(job, State::kCancelled, "");
      if (is_final(job.state)) return;
      job.state = State::kPreparing;
      ++job.local.attempts;
      if (!job.start_time) job.start_time = std::chrono::system_clock::now();
    });
  }

  void launch_tasks(const Job& job) {
    const Path logs = attempt_folder(store_, name_, job.local.attempts);
    launch::LaunchOptions options = launch_options(job, logs);
    options.on_started = [this] { note_started(); };
    options.must_end = [this] {
      if (has_folder()) return false;
      log::warning("the folder of the job {} was deleted: ending its tasks", name_);
      return true;
    };
    options.on_failed = [this](const TaskSpec& task, int status) {
      failure_ = failure_text(task.type, task.index, status);
    };
    log::info("job {} starts attempt={} cpus={:g} memory_gb={:g} gpus={}", name_,
              job.local.attempts, job.local.needs.cpus, job.local.needs.memory_gb,
              job.local.gpus.size());
    const auto end = outcome(options);
    if (!has_folder()) return log::warning("the job {} has ended, without its folder", name_);
    store_.change(name_, [&](Job& changed) {
      end(changed);
      // Before the state is visible, so that followers of the job have read this line, too.
      log::info("job {} is {}", name_, name_of(changed.state));
    });
  }

  // A value out of the try: what happened, as a change of the job.
  std::function<void(Job&)> outcome(const launch::LaunchOptions& options) {
    try {
      std::vector<std::string> variables = store_.environment_of(name_);
      variables.push_back(job_entry(store_, name_));
      take_environment(variables);
      const int status = launch::launch(options);
      const std::string failure =
          failure_.empty() ? fmt::format("The job exited with status {}.", status) : failure_;
      return [status, failure](Job& job) { take_status(job, status, failure); };
    } catch (const Error& error) {
      const std::string message = error.what();
      log::error("{}", message);
      return [message](Job& job) {
        finish(job, job.state == State::kCancelling ? State::kCancelled : State::kFailed, message);
      };
    }
  }

  void note_started() {
    try {
      store_.change(name_, [](Job& job) {
        if (job.state == State::kPreparing) job.state = State::kRunning;
      });
    } catch (const Error&) {
      // Without its folder the job is about to be ended in order.
      if (has_folder()) throw;
    }
  }

  const JobStore& store_;
  const std::string& name_;
  const HeldLock& lock_;
  std::string failure_;
};

}  // namespace

std::string failure_text(const std::string& type, std::int64_t index, int status) {
  const std::string how = status > kStatusOfSignals
                              ? fmt::format("was killed by signal {}", status - kStatusOfSignals)
                              : fmt::format("exited with a non-zero status of {}", status);
  return fmt::format("The replica {} {} {}.", type, index, how);
}

Path attempt_folder(const JobStore& store, const std::string& name, std::int64_t attempt) {
  return store.folder_of(name) / "attempts" / std::to_string(attempt);
}

void run_job(const JobStore& store, const std::string& name,
             const std::function<void(const Job&)>& on_end) {
  hold_signals();
  const auto lock = HeldLock::take(run_lock_of(store, name));
  if (!lock) {
    log::info("another process runs the job {}", name);
    return;
  }
  const auto ended = JobRun(store, name, *lock).run();
  if (ended && on_end) on_end(*ended);
}

Job cancel_local_job(const JobStore& store, const std::string& name, const std::string& reason) {
  bool must_signal = false;
  const Job job = store.change(name, [&](Job& changed) {
    if (is_final(changed.state) || changed.state == State::kCancelling) return;
    changed.error_message = reason;
    if (changed.state == State::kQueued) {
      finish(changed, State::kCancelled, "");
    } else {
      changed.state = State::kCancelling;
      must_signal = true;
    }
  });
  // Once: a second signal would kill the tasks while they save.
  if (must_signal) ask_runner_to_end(store, name);
  return job;
}

void ask_runner_to_end(const JobStore& store, const std::string& name) {
  const auto runner = process::read_pid_file(run_pid_file(store, name));
  if (runner && process::is_alive(*runner)) ::kill(runner->pid, SIGTERM);
}

}  // namespace muster::jobs
