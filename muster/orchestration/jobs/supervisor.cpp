#include "muster/orchestration/jobs/supervisor.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/orchestration/jobs/job_runner.h"
#include "muster/orchestration/process/process_identity.h"
#include "muster/orchestration/process/process_tree.h"
#include "muster/orchestration/process/spawn.h"

namespace muster::jobs {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kSupervisorTick{100};
constexpr std::chrono::seconds kTrimEvery{2};
constexpr milliseconds kFirstDelay{250};
constexpr milliseconds kLongestDelay{30'000};
constexpr std::chrono::minutes kForgiveAfter{1};
constexpr std::uint64_t kMostServiceLogBytes = std::uint64_t{16} << 20;
// Rounding of sums.
constexpr double kSlack = 1e-6;

Path supervisor_lock(const JobStore& store) { return store.folder() / "supervisor.lock"; }
Path supervisor_pid_file(const JobStore& store) { return store.folder() / "supervisor.pid"; }

Resources operator+(Resources a, const Resources& b) {
  a.cpus += b.cpus;
  a.memory_gb += b.memory_gb;
  a.gpus += b.gpus;
  return a;
}

bool fits(const Resources& sum, const Resources& host) {
  return sum.cpus <= host.cpus + kSlack && sum.memory_gb <= host.memory_gb + kSlack &&
         sum.gpus <= host.gpus;
}

// job.json as it was when it was read.
struct Seen {
  ino_t inode = 0;
  off_t size = 0;
  timespec changed{};
  /// Nothing if it could not be read.
  std::optional<Job> job{};

  bool is_same_file(const Seen& other) const {
    return inode == other.inode && size == other.size && changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
  }
};

class Supervisor {
 public:
  Supervisor(const JobStore& store, const SupervisorOptions& options)
      : store_(store), options_(options) {}

  /// Until there has been nothing to do for a while.
  void run() {
    auto last_work = Clock::now();
    while (Clock::now() - last_work < options_.idle) {
      const auto begin = Clock::now();
      if (turn()) last_work = Clock::now();
      // With very many jobs a look takes a while: it stays a small part of one processor.
      std::this_thread::sleep_for(
          std::max<Clock::duration>(kSupervisorTick, 10 * (Clock::now() - begin)));
    }
  }

  /// Looks at all jobs once; whether any is not over.
  bool turn() {
    reap();
    std::vector<Job> waiting;
    std::vector<Job> running;
    for (Job& job : open_jobs()) {
      (has_process(job.job_id) ? running : waiting).push_back(std::move(job));
    }
    const bool has_work = !waiting.empty() || !running.empty();
    end_late(running);
    trim(running);
    std::erase_if(waiting, [this](const Job& job) { return finish_waiting(job); });
    for (const Job& job : choose_jobs(waiting, running, options_.host)) {
      start(job, running);
      running.push_back(job);
    }
    return has_work;
  }

 private:
  // Those that are not over. Files that have not changed are not read again.
  std::vector<Job> open_jobs() {
    std::vector<Job> jobs;
    std::map<std::string, Seen> seen;
    for (const std::string& name : store_.names()) {
      struct stat status {};
      if (::stat((store_.folder_of(name) / "job.json").c_str(), &status) != 0) continue;
      Seen now{.inode = status.st_ino, .size = status.st_size, .changed = status.st_mtim};
      const auto before = seen_.find(name);
      now.job = before != seen_.end() && before->second.is_same_file(now)
                    ? std::move(before->second.job)
                    : try_read(name);
      if (now.job && needs_supervisor(*now.job)) jobs.push_back(*now.job);
      seen[name] = std::move(now);
    }
    seen_ = std::move(seen);
    return jobs;
  }

  std::optional<Job> try_read(const std::string& name) {
    try {
      return store_.read(name);
    } catch (const Error& error) {
      if (reported_.insert(name).second) log::error("skipping the job {}: {}", name, error.what());
      return std::nullopt;
    }
  }

  bool has_process(const std::string& name) const {
    return started_.contains(name) || HeldLock::is_held(run_lock_of(store_, name));
  }

  void reap() {
    for (auto child = started_.begin(); child != started_.end();) {
      int status = 0;
      const pid_t ended = ::waitpid(child->second, &status, WNOHANG);
      if (ended == 0 || (ended < 0 && errno == EINTR)) {
        ++child;
        continue;
      }
      child = started_.erase(child);
    }
  }

  // ----------------------------------------------------------------------------- limits in time

  void end_late(const std::vector<Job>& running) const {
    const auto now = std::chrono::system_clock::now();
    for (const Job& job : running) {
      const auto limit = job.training_input.max_running_time;
      if (job.state != State::kRunning || !limit || !job.start_time) continue;
      if (now - *job.start_time <= *limit) continue;
      log::warning("job {} runs for longer than its maxRunningTime: cancelling it", job.job_id);
      cancel_local_job(
          store_, job.job_id,
          fmt::format("The job ran for longer than its maxRunningTime of {} s.", limit->count()));
    }
  }

  // Whether a job without a process needs none.
  bool finish_waiting(const Job& job) const {
    const auto limit = job.training_input.max_wait_time;
    if (job.state != State::kQueued || !limit) return false;
    if (std::chrono::system_clock::now() - job.create_time <= *limit) return false;
    log::warning("job {} waits for longer than its maxWaitTime: cancelling it", job.job_id);
    cancel_local_job(
        store_, job.job_id,
        fmt::format("The job waited for longer than its maxWaitTime of {} s.", limit->count()));
    return true;
  }

  // -------------------------------------------------------------------------------------- start

  struct Starts {
    int count = 0;
    Clock::time_point next{};
  };

  void start(const Job& job, const std::vector<Job>& running) {
    Starts& starts = starts_[job.job_id];
    const auto now = Clock::now();
    if (now < starts.next) return;
    if (now - starts.next > kForgiveAfter) starts.count = 0;
    // The cached job may be outdated where two changes fell into one tick of the clock.
    seen_.erase(job.job_id);
    const auto delay = kFirstDelay * (1 << std::min(starts.count, 7));
    starts = {.count = starts.count + 1,
              .next = now + std::min<milliseconds>(delay, kLongestDelay)};
    try {
      give_gpus(job, running);
      std::vector<std::string> command = options_.run_command;
      command.push_back(job.job_id);
      started_[job.job_id] =
          process::start_detached(command, store_.folder_of(job.job_id) / "service.log");
      log::info("started job {} state={} attempts={} pid={}", job.job_id, name_of(job.state),
                job.local.attempts, started_[job.job_id]);
    } catch (const Error& error) {
      log::error("could not start the job {}, which is tried again: {}", job.job_id, error.what());
    }
  }

  void give_gpus(const Job& job, const std::vector<Job>& running) const {
    std::set<std::string> taken;
    for (const Job& other : running) {
      // GPUs that were assigned just now are in the file, not in the copy.
      const auto fresh = other.local.needs.gpus > 0 ? store_.read(other.job_id).local.gpus
                                                    : std::vector<std::string>();
      taken.insert(fresh.begin(), fresh.end());
    }
    std::vector<std::string> given;
    for (std::int64_t i = 0; i < options_.host.gpus; ++i) {
      if (static_cast<std::int64_t>(given.size()) >= job.local.needs.gpus) break;
      if (!taken.contains(std::to_string(i))) given.push_back(std::to_string(i));
    }
    if (given == job.local.gpus) return;
    store_.change(job.job_id, [&](Job& changed) { changed.local.gpus = given; });
  }

  // --------------------------------------------------------------------------------------- logs

  void trim(const std::vector<Job>& running) {
    if (Clock::now() < next_trim_) return;
    next_trim_ = Clock::now() + kTrimEvery;
    for (const Job& job : running) {
      trim_file(store_.folder_of(job.job_id) / "service.log", kMostServiceLogBytes);
      const Path folder = attempt_folder(store_, job.job_id, job.local.attempts);
      if (!file_exists(folder)) continue;
      for (const std::string& name : file_system_for(folder).list(folder)) {
        if (!name.ends_with(".log") || trim_file(folder / name, job.local.log_bytes)) continue;
        if (reported_.insert(name).second) {
          log::warning("the file system cannot shorten {}: logs take what tasks write",
                       (folder / name).string());
        }
      }
    }
  }

  const JobStore& store_;
  const SupervisorOptions& options_;
  std::map<std::string, Seen> seen_;
  std::map<std::string, pid_t> started_;
  std::map<std::string, Starts> starts_;
  std::set<std::string> reported_;
  Clock::time_point next_trim_{};
};

}  // namespace

std::vector<Job> choose_jobs(std::vector<Job> waiting, const std::vector<Job>& running,
                             const Resources& host) {
  Resources taken;
  for (const Job& job : running) taken = taken + job.local.needs;
  const auto rank = [](const Job& job) {
    return std::tuple(job.state == State::kQueued, -job.training_input.priority, job.create_time,
                      job.job_id);
  };
  std::sort(waiting.begin(), waiting.end(),
            [&](const Job& a, const Job& b) { return rank(a) < rank(b); });
  std::vector<Job> chosen;
  bool is_blocked = false;
  bool is_free = running.empty();
  for (Job& job : waiting) {
    // The rest of a job that is being cancelled needs nothing of the host.
    const bool only_ends = job.state == State::kCancelling;
    const Resources sum = taken + job.local.needs;
    if (!only_ends && (is_blocked || !(is_free || fits(sum, host)))) {
      is_blocked = true;
      continue;
    }
    if (!only_ends) {
      taken = sum;
      is_free = false;
    }
    chosen.push_back(std::move(job));
  }
  return chosen;
}

void supervise(const JobStore& store, const SupervisorOptions& options) {
  Supervisor supervisor(store, options);
  for (;;) {
    {
      const auto lock = HeldLock::take(supervisor_lock(store));
      if (!lock) {
        log::info("another supervisor has {}", store.folder().string());
        return;
      }
      log::info("supervising {} cpus={:g} memory_gb={:g} gpus={}", store.folder().string(),
                options.host.cpus, options.host.memory_gb, options.host.gpus);
      process::write_pid_file(supervisor_pid_file(store), *process::identify(::getpid()));
      store.remove_leftovers();
      supervisor.run();
      file_system_for(store.folder()).remove(supervisor_pid_file(store));
    }
    // A submit that saw the lock taken relies on a last look after it is free.
    const auto jobs = store.list();
    if (std::none_of(jobs.begin(), jobs.end(), needs_supervisor)) {
      log::info("nothing is left to do");
      return;
    }
  }
}

bool needs_supervisor(const Job& job) {
  return job.back_end == kLocalBackEnd && !is_final(job.state);
}

bool is_supervised(const JobStore& store) { return HeldLock::is_held(supervisor_lock(store)); }

void ensure_supervisor(const JobStore& store, const std::vector<std::string>& command) {
  if (is_supervised(store)) return;
  // It looks after other jobs too: it is no part of a job whose program has called this.
  std::vector<std::string> words{"env", "-u", "MUSTER_JOB", process::kOutlivesEntry};
  words.insert(words.end(), command.begin(), command.end());
  process::start_detached(words, store.folder() / "supervisor.log");
}

bool trim_file(const Path& file, std::uint64_t most_bytes) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return errno == ENOENT;
  struct stat status {};
  bool is_small = true;
  if (::fstat(descriptor, &status) == 0) {
    const auto held_bytes = static_cast<std::uint64_t>(status.st_blocks) * 512;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    // A quarter more may gather, so that it is not done for each line.
    if (size > most_bytes && held_bytes > most_bytes + most_bytes / 4) {
      is_small = ::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                             static_cast<off_t>(size - most_bytes)) == 0;
    }
  }
  ::close(descriptor);
  return is_small;
}

}  // namespace muster::jobs
