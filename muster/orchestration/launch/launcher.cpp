#include "muster/orchestration/launch/launcher.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/folder_claim.h"
#include "muster/base/log.h"
#include "muster/base/program.h"
#include "muster/base/wait.h"
#include "muster/orchestration/launch/launch_diary_internal.h"
#include "muster/orchestration/launch/launch_plan_internal.h"
#include "muster/orchestration/launch/merged_log.h"
#include "muster/orchestration/launch/remote_task_internal.h"
#include "muster/orchestration/launch/running_task_internal.h"
#include "muster/orchestration/launch/scale.h"
#include "muster/orchestration/launch/secret.h"
#include "muster/orchestration/launch/training_log.h"
#include "muster/orchestration/process/orphan_guard.h"
#include "muster/orchestration/process/process_identity.h"
#include "muster/orchestration/process/process_tree.h"
#include "muster/orchestration/process/signal_queue.h"
#include "muster/orchestration/process/task_process.h"

namespace muster::launch {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;

constexpr int kExitMisused = 2;
// How often new lines are looked for; the end of a task is seen at once.
constexpr milliseconds kTick{50};
constexpr int kMostLaunches = 3;
constexpr std::chrono::seconds kStartUp{15};
constexpr std::chrono::seconds kAskEvery{1};
constexpr const char* kLauncherPidFile = "launch.pid";

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options), output_(STDOUT_FILENO, has_colours()), guard_(options.grace) {}

  /// `started` is called when all tasks have been, once.
  template <typename Started>
  int run(Started started) {
    claim_folder();
    if (is_elastic()) {
      scale_requests_.emplace(options_.log_dir,
                              WorkerRange{*options_.least_workers, options_.cluster.workers});
    }
    auto tasks = choose_tasks();
    for (const LaunchTask& task : tasks) remove_old_log(task);
    for (LaunchTask& task : tasks) {
      const auto number = output_.follow(task.task.name(), file_of(task, ".log"));
      tasks_.push_back({.task = std::move(task), .log = number});
    }
    try {
      start_all();
      started();
      const auto count = std::ranges::count_if(tasks_, &Running::runs);
      log::info("Job launched. tasks={} logs={}", count, options_.log_dir.string());
      while (!is_over()) turn();
    } catch (...) {
      kill_all();
      finish();
      throw;
    }
    finish();
    return lost_ps_status_.value_or(chief().end->status);
  }

  const MergedLog& output() const { return output_; }

 private:
  static bool has_colours() {
    return ::isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  }

  // ------------------------------------------------------------------------------------- files

  Path file_of(const LaunchTask& task, const char* ending) const {
    return options_.log_dir / (task.name + ending);
  }

  void claim_folder() const {
    file_system_for(options_.log_dir).create_directories(options_.log_dir);
    // Among launches that begin at the same instant, one looks and writes at a time.
    const FolderClaim claim(options_.log_dir);
    const Path file = options_.log_dir / kLauncherPidFile;
    const auto other = process::read_pid_file(file);
    if (other && process::is_alive(*other)) {
      throw FailedPrecondition(
          "another launch (process {}) uses the log folder; stop it with `muster launch stop "
          "--log-dir {}` or give this one another",
          other->pid, options_.log_dir.string());
    }
    process::write_pid_file(file, *process::identify(::getpid()));
  }

  void finish() {
    output_.finish();
    file_system_for(options_.log_dir).remove(options_.log_dir / kLauncherPidFile);
  }

  void remove_old_log(const LaunchTask& task) const {
    file_system_for(options_.log_dir).remove(file_of(task, ".log"));
  }

  void remove_pid_file(const LaunchTask& task) const {
    file_system_for(options_.log_dir).remove(file_of(task, ".pid"));
  }

  // ------------------------------------------------------------------------------------- start

  std::vector<LaunchTask> choose_tasks();

  void start(Running& running) {
    start_task(options_, running, file_of(running.task, ".log"));
    guard_.watch(running.pid);
    running.started = Clock::now();
    running.restart_at.reset();
    running.end.reset();
    running.was_asked = false;
    if (const auto process = process::identify(running.pid)) {
      process::write_pid_file(file_of(running.task, ".pid"), *process);
    }
    log::info("started {} pid={} address={} log={}{}", running.task.task.name(), running.pid,
              running.task.address.empty() ? "none" : running.task.address,
              file_of(running.task, ".log").string(),
              running.task.processor ? fmt::format(" processor={}", *running.task.processor) : "");
  }

  void start_all() {
    ++launches_;
    for (Running& running : tasks_) {
      if (is_wanted(running)) start(running);
    }
  }

  bool is_elastic() const {
    return options_.least_workers && *options_.least_workers < options_.cluster.workers;
  }

  bool is_wanted(const Running& running) const {
    return running.task.task.type != job::kWorker || running.task.task.index < wanted_workers_;
  }

  // Workers are started and ended, the last ones first, until there are as many as wanted.
  void scale(Clock::time_point now) {
    if (const auto wanted = scale_requests_->next()) {
      log::info("scaling from {} to {} workers", wanted_workers_, *wanted);
      wanted_workers_ = *wanted;
    }
    for (Running& running : tasks_) {
      if (is_wanted(running)) {
        const bool was_never_started = !running.end;
        if (running.is_over() && (running.was_asked || was_never_started)) {
          running.is_late = true;
          start(running);
        }
      } else if (running.restart_at) {
        running.restart_at.reset();
        running.was_asked = true;
      } else if (running.runs() && !running.was_asked) {
        ask_to_end(running, now);
      }
      if (running.runs() && running.kill_at && now >= *running.kill_at) kill_one(running);
    }
  }

  void start_again_with_other_ports(const Running& cause) {
    log::warning("{} failed at its start {}: starting all tasks again with other ports, {} of {}",
                 cause.task.task.name(), in_words(*cause.end), launches_ + 1, kMostLaunches);
    kill_all();
    if (ending_) return;  // A signal came meanwhile.
    std::vector<LaunchTask> tasks = choose_tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      tasks_[i].task = std::move(tasks[i]);
      output_.forget(tasks_[i].log);
    }
    start_all();
  }

  // --------------------------------------------------------------------------------- main loop

  void turn() {
    if (const auto signal = signals_.next(kTick)) handle(*signal);
    ask_whether_to_end();
    if (options_.ends_descendants) process::reap_orphans(processes());
    std::vector<Running*> ended;
    for (Running& running : tasks_) {
      if (note_end(running)) ended.push_back(&running);
    }
    output_.poll();
    // Before any other decision: the others may have failed because of it.
    const auto lost = std::find_if(ended.begin(), ended.end(),
                                   [&](const Running* running) { return lost_its_port(*running); });
    if (lost != ended.end()) return start_again_with_other_ports(**lost);
    for (Running* running : ended) decide(*running);
    const auto now = Clock::now();
    for (Running& running : tasks_) {
      if (running.restart_at && now >= *running.restart_at) start(running);
    }
    if (ending_) {
      advance_end(now);
    } else if (scale_requests_) {
      scale(now);
    }
  }

  void ask_whether_to_end() {
    if (!options_.must_end || ending_ || Clock::now() < next_question_) return;
    next_question_ = Clock::now() + kAskEvery;
    if (options_.must_end()) pass_on(SIGTERM);
  }

  std::vector<pid_t> processes() const {
    std::vector<pid_t> all;
    for (const Running& running : tasks_) all.push_back(running.pid);
    return all;
  }

  bool is_over() const {
    return ending_ && std::all_of(tasks_.begin(), tasks_.end(),
                                  [](const Running& running) { return running.is_over(); });
  }

  Running& chief() {
    return *std::find_if(tasks_.begin(), tasks_.end(),
                         [](const Running& running) { return running.task.is_chief(); });
  }

  bool note_end(Running& running) {
    if (!running.runs()) return false;
    const auto end = process::reap(running.pid);
    if (!end) return false;
    guard_.forget(running.pid);
    remove_pid_file(running.task);
    running.pid = -1;
    running.end = end;
    running.stop_at.reset();
    running.kill_at.reset();
    return true;
  }

  bool was_starting(const Running& running) const {
    return Clock::now() - running.started < kStartUp;
  }

  bool may_restart(const Running& running) const {
    return running.end->status != kExitMisused && running.restarts < options_.restart.most_restarts;
  }

  // Whether other ports may help: a line says so, or nothing else starts a task again that asks for
  // it.
  bool lost_its_port(const Running& running) const {
    if (ending_ || running.end->status == 0 || launches_ >= kMostLaunches) return false;
    if (!was_starting(running) || options_.start_port || running.task.address.empty()) return false;
    // The others train.
    if (running.is_late) return false;
    if (output_.saw_port_in_use(running.log)) return true;
    return running.end->status == kExitTryAgain && options_.restart.most_restarts == 0;
  }

  // By a signal that it heard, or that its chief heard: nothing failed.
  static bool was_stopped(const process::EndOfProcess& end) {
    return !end.killed &&
           (end.status == kStatusOfSignals + SIGTERM || end.status == kStatusOfSignals + SIGINT);
  }

  // Decides what follows from a task's end.
  void decide(Running& running) {
    const process::EndOfProcess end = *running.end;
    const std::string name = running.task.task.name();
    if (end.status == 0 || running.was_asked) {
      log::info("ended {} {}", name, in_words(end));
    } else if (!ending_ && may_restart(running)) {
      const milliseconds delay = restart_delay(running.restarts++);
      running.restart_at = Clock::now() + delay;
      log::warning("{} failed {}: restart {} of {} in {} ms", name, in_words(end), running.restarts,
                   options_.restart.most_restarts, delay.count());
      return;
    } else if (was_stopped(end) && !running.task.is_chief()) {
      log::info("stopped {} {}", name, in_words(end));
    } else {
      log::error("{} failed {} log={}", name, in_words(end),
                 file_of(running.task, ".log").string());
      if (!ending_ && options_.on_failed) options_.on_failed(running.task.task, end.status);
    }
    if (running.task.is_chief() && !ending_) begin_end(end.status == 0);
    if (running.task.is_ps() && end.status != 0 && !ending_) end_without(running);
  }

  // It is not restarted, and the others would only wait for it. One that was stopped in order has
  // left a run that its chief is about to end.
  void end_without(const Running& ps) {
    lost_ps_status_ = ps.end->status;
    if (was_stopped(*ps.end)) return begin_end(/*is_good=*/true);
    log::error("the run cannot go on without {}: ending the other tasks", ps.task.task.name());
    begin_end(/*is_good=*/false);
  }

  // --------------------------------------------------------------------------------------- end

  void begin_end(bool is_good) {
    ending_ = true;
    const auto now = Clock::now();
    const bool at_once = !is_good || options_.end_of_others == EndOfOthers::kKill;
    ps_stop_at_ = now + (at_once ? milliseconds(0) : options_.grace);
    for (Running& running : tasks_) {
      running.restart_at.reset();
      if (!running.runs()) continue;
      if (options_.end_of_others == EndOfOthers::kKill) {
        running.kill_at = now;
      } else if (!running.task.is_ps()) {
        const auto patience =
            running.task.is_evaluator() ? options_.evaluator_grace : options_.grace;
        running.stop_at = now + (at_once ? milliseconds(0) : patience);
        if (!at_once) {
          log::info("waiting for {} to end seconds={:g}", running.task.task.name(),
                    std::chrono::duration<double>(patience).count());
        }
      }
    }
  }

  // Ps come last: workers that still save or hand over need them.
  bool must_wait(const Running& running) const {
    return running.task.is_ps() &&
           std::any_of(tasks_.begin(), tasks_.end(), [](const Running& other) {
             return other.runs() && !other.task.is_ps() && !other.task.is_evaluator();
           });
  }

  void advance_end(Clock::time_point now) {
    for (Running& running : tasks_) {
      if (!running.runs()) continue;
      if (running.kill_at && now >= *running.kill_at) {
        kill_one(running);
        continue;
      }
      if (must_wait(running)) continue;
      if (running.task.is_ps() && !running.stop_at && !running.kill_at) {
        running.stop_at = ps_stop_at_;
      }
      if (running.stop_at && now >= *running.stop_at) ask_to_end(running, now);
    }
  }

  void ask_to_end(Running& running, Clock::time_point now) {
    log::info("asking {} to end pid={} signal={}", running.task.task.name(), running.pid,
              stop_signal_);
    running.send(stop_signal_);
    running.stop_at.reset();
    running.kill_at = now + options_.grace;
  }

  void kill_one(Running& running) {
    if (options_.end_of_others == EndOfOthers::kGrace) {
      log::warning("killing {} pid={}, which did not end", running.task.task.name(), running.pid);
    }
    running.send(SIGKILL);
    running.kill_at.reset();
  }

  void kill_all() {
    for (Running& running : tasks_) {
      if (running.runs()) running.send(SIGKILL);
      running.restart_at.reset();
    }
    for (Running& running : tasks_) {
      while (running.runs() && !note_end(running)) {
        if (const auto signal = signals_.next(kTick)) handle(*signal);
      }
    }
  }

  void handle(int signal) {
    if (signal == SIGCHLD) return;
    ++stop_requests_;
    if (stop_requests_ > 1) {
      log::warning("signal {} again: killing all tasks", signal);
      for (Running& running : tasks_) {
        if (running.runs()) running.send(SIGKILL);
      }
    } else {
      log::warning("signal {}: passing it on; once more kills", signal);
      pass_on(signal);
    }
  }

  void pass_on(int signal) {
    ending_ = true;
    stop_signal_ = signal;
    const auto now = Clock::now();
    ps_stop_at_ = now;
    for (Running& running : tasks_) {
      // Its last end stays its result.
      running.restart_at.reset();
      if (running.runs() && !running.task.is_ps()) running.stop_at = now;
    }
  }

  const LaunchOptions& options_;
  /// Workers with an index below run.
  std::int64_t wanted_workers_ = options_.least_workers.value_or(options_.cluster.workers);
  std::optional<ScaleRequests> scale_requests_;
  const std::string secret_ = draw_secret();
  MergedLog output_;
  process::SignalQueue signals_;
  process::OrphanGuard guard_;
  std::optional<ReservedPorts> ports_;
  std::vector<Running> tasks_;
  int launches_ = 0;
  bool ending_ = false;
  int stop_requests_ = 0;
  /// Exit status of a ps whose loss ended the run.
  std::optional<int> lost_ps_status_;
  int stop_signal_ = SIGTERM;
  Clock::time_point ps_stop_at_{};
  Clock::time_point next_question_{};
};

std::vector<LaunchTask> Launcher::choose_tasks() {
  ports_ = reserve_ports(options_);
  auto tasks = tasks_of(options_, ports_);
  if (options_.cluster.is_single || has_own_secret()) return tasks;
  for (LaunchTask& task : tasks) {
    task.environment.push_back(fmt::format("{}={}", kSecretVariable, secret_));
  }
  return tasks;
}

int run_tasks(const LaunchOptions& options) {
  const auto start = Clock::now();
  Launcher launcher(options);
  std::unique_ptr<TrainingLog> entry;
  // A program that cannot be started is no run to keep a diary of.
  const int status = launcher.run([&] {
    entry = open_training_log(options);
    if (options.on_started) options.on_started();
  });
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (entry) entry->add_outcome(outcome_text(status, seconds.count(), launcher.output()));
  log::info("finished status={} seconds={:.1f}", status, seconds.count());
  return status;
}

// Ends processes that are left of the tasks when they have ended.
void end_descendants(milliseconds grace) {
  const auto find = [] {
    process::reap_orphans({});
    return process::descendants();
  };
  try {
    process::end_processes(find, grace, "a task", [](pid_t process) {
      log::warning("ending process {}, which a task has left behind", process);
    });
  } catch (const Unavailable& error) {
    log::error("{}", error.what());
  }
}

}  // namespace

int launch(const LaunchOptions& options) {
  check_launch(options);
  if (!options.ends_descendants) return run_tasks(options);
  process::adopt_orphans();
  try {
    const int status = run_tasks(options);
    end_descendants(options.grace);
    return status;
  } catch (...) {
    end_descendants(options.grace);
    throw;
  }
}

}  // namespace muster::launch
