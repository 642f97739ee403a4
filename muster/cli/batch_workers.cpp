#include "muster/cli/batch_workers.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"
#include "muster/cli/progress.h"
#include "muster/orchestration/process/task_process.h"
#include "muster/serving/batch/batch_deaths.h"
#include "muster/serving/batch/batch_shard.h"

namespace muster::cli {
namespace {

using Clock = std::chrono::steady_clock;
using serving::BatchJob;

constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::seconds kLogEvery{10};
/// For a worker that is asked to stop: it ends after the batch that it computes.
constexpr std::chrono::seconds kStopPatience{60};
/// For a shard that a worker of a killed command still has: it was sent SIGTERM.
constexpr std::chrono::seconds kOrphanPatience{60};
constexpr int kMostCrashes = 3;
/// Limit of deaths of workers while they computed instances.
constexpr int kMostDeaths = 1000;
constexpr int kStatusOfSignals = 128;
constexpr std::size_t kMostLineBytes = std::size_t{1} << 16;
constexpr std::string_view kFailure = "muster: ";

std::vector<std::string> arguments_of(const Path& output_path, const BatchWorkerOptions& options) {
  const auto& limits = options.limits;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limits.time);
  return {"batch-predict-worker", output_path.string(),
          "--save-milliseconds",  std::to_string(options.save_every.count()),
          "--max-live-bytes",     std::to_string(limits.live_bytes),
          "--max-total-bytes",    std::to_string(limits.total_bytes),
          "--max-operations",     std::to_string(limits.operations),
          "--max-calls",          std::to_string(limits.calls),
          "--max-seconds",        std::to_string(seconds.count())};
}

/// A worker and what it prints, line by line.
class BatchWorker {
 public:
  BatchWorker(const Path& output_path, const BatchWorkerOptions& options, WorkerProgram& program) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "making a pipe");
    pipe_ = ends[0];
    ::fcntl(pipe_, F_SETFL, O_NONBLOCK);  // This end alone: the worker waits where it is full.
    try {
      worker_ = program.start(arguments_of(output_path, options), ends[1]);
    } catch (...) {
      ::close(ends[0]);
      ::close(ends[1]);
      throw;
    }
    ::close(ends[1]);
  }
  ~BatchWorker() {
    if (!end()) {
      ::kill(worker_.process, SIGKILL);
      while (!end()) ::usleep(1000);  // It was killed: it ends.
    }
    ::close(pipe_);
  }
  BatchWorker(const BatchWorker&) = delete;
  BatchWorker& operator=(const BatchWorker&) = delete;

  int pipe() const { return pipe_; }
  pid_t process() const { return worker_.process; }
  void stop() const {
    if (!end_) ::kill(worker_.process, SIGTERM);
  }

  /// Once it has ended.
  const std::optional<process::EndOfProcess>& end() {
    if (!end_) end_ = WorkerProgram::ended(worker_);
    return end_;
  }
  /// Message of its failure; empty if it printed none.
  const std::string& failure() const { return failure_; }

  /// Reads what is there; `on_progress` gets shard and instances that are done.
  template <typename OnProgress>
  void read(OnProgress&& on_progress) {
    char piece[1 << 14];
    for (;;) {
      const ssize_t count = ::read(pipe_, piece, sizeof piece);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      text_.append(piece, static_cast<std::size_t>(count));
      std::size_t begin = 0;
      for (auto line_end = text_.find('\n'); line_end != text_.npos;
           line_end = text_.find('\n', begin)) {
        take(std::string_view(text_).substr(begin, line_end - begin), on_progress);
        begin = line_end + 1;
      }
      text_.erase(0, begin);
      if (text_.size() > kMostLineBytes) text_.clear();
    }
  }

 private:
  template <typename OnProgress>
  void take(std::string_view line, OnProgress&& on_progress) {
    unsigned long long shard = 0;
    unsigned long long records = 0;
    if (std::sscanf(std::string(line).c_str(), "@%llu %llu", &shard, &records) == 2) {
      on_progress(shard, records);
    } else if (line.starts_with(kFailure)) {
      failure_ = line.substr(kFailure.size());
    } else {
      log::progress("");
      fmt::print(stderr, "{}\n", line);
    }
  }

  WorkerProgram::Worker worker_{};
  int pipe_ = -1;
  std::string text_{};
  std::string failure_{};
  std::optional<process::EndOfProcess> end_{};
};

class BatchWorkers {
 public:
  BatchWorkers(const Path& output_path, const BatchJob& job, const BatchWorkerOptions& options,
               WorkerProgram& program)
      : output_path_(output_path),
        job_(job),
        options_(options),
        program_(program),
        done_(job.shards, 0),
        before_(look_at_saved_shards()),
        progress_("batch-predict", job.records() - before_, "instances") {
    if (before_ > 0) {
      log::info("resuming a batch prediction done={} of={}", before_, job.records());
    }
  }

  void run() {
    const StopSignals signals;
    const auto unfinished = static_cast<std::uint64_t>(std::ranges::count(published_, false));
    started_ = std::min(options_.workers, unfinished);
    for (std::uint64_t i = 0; i < started_; ++i) start();
    while (!workers_.empty()) {
      wait_for_lines();
      show_progress();
      if (const int signal = StopSignals::received(); signal != 0) stop_for(signal);
      reap();
      if (workers_.empty()) start_for_what_is_left();
    }
    progress_.clear();
  }

 private:
  // Before anything is added to them.
  std::uint64_t look_at_saved_shards() {
    serving::check_published_shards(output_path_, job_);
    return look_at_shards();
  }

  // Instances that are done and saved.
  std::uint64_t look_at_shards() {
    std::uint64_t sum = 0;
    published_.assign(job_.shards, false);
    for (std::uint64_t shard = 0; shard < job_.shards; ++shard) {
      const auto state = serving::read_shard_state(output_path_, shard);
      done_[shard] = state ? state->records : 0;
      published_[shard] = serving::is_published(output_path_, job_, shard);
      sum += done_[shard];
    }
    return sum;
  }

  std::uint64_t all_done() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t records : done_) sum += records;
    return sum;
  }

  void start() {
    workers_.push_back(std::make_unique<BatchWorker>(output_path_, options_, program_));
  }

  void read_lines(BatchWorker& worker) {
    worker.read([this](std::uint64_t shard, std::uint64_t records) {
      if (shard < done_.size()) done_[shard] = records;
    });
  }

  void wait_for_lines() {
    std::vector<pollfd> pipes;
    for (const auto& worker : workers_) pipes.push_back({worker->pipe(), POLLIN, 0});
    ::poll(pipes.data(), pipes.size(), static_cast<int>(kLook.count()));
    for (const auto& worker : workers_) read_lines(*worker);
    // A pipe that is closed is always ready.
    if (std::ranges::any_of(pipes,
                            [](const pollfd& pipe) { return (pipe.revents & POLLHUP) != 0; })) {
      ::usleep(10'000);
    }
  }

  void show_progress() {
    // A worker that begins at an older save takes the number back.
    const std::uint64_t done = std::max(all_done(), before_);
    progress_.update(done - before_);
    const auto now = Clock::now();
    if (log::shows_progress() || now < next_log_) return;
    next_log_ = now + kLogEvery;
    const double rate = static_cast<double>(done - before_) / progress_.seconds();
    log::info("predicted instances={} of={} rate={:.0f}/s left={:.0f}s", done, job_.records(), rate,
              rate > 0 ? static_cast<double>(job_.records() - done) / rate : 0.0);
  }

  void reap() {
    for (std::size_t i = 0; i < workers_.size();) {
      if (!workers_[i]->end()) {
        ++i;
        continue;
      }
      const auto worker = std::move(workers_[i]);
      workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
      read_lines(*worker);
      take_end(*worker);
    }
  }

  void take_end(BatchWorker& worker) {
    const process::EndOfProcess end = *worker.end();
    if (end.status == 0) return;
    const bool was_interrupted = StopSignals::received() != 0;
    if (was_interrupted) return;
    if (!end.killed) {
      stop_all();
      throw Error(ErrorCode::kUnknown,
                  worker.failure().empty()
                      ? fmt::format("a worker ended with status {}", end.status)
                      : worker.failure());
    }
    if (is_death_of_instances(worker.process(), end.status - kStatusOfSignals)) return start();
    const std::uint64_t saved = look_at_shards();
    crashes_ = saved > saved_at_crash_ ? 1 : crashes_ + 1;
    saved_at_crash_ = saved;
    // All workers may have been killed at once: each of them counts once per round.
    if (crashes_ >= kMostCrashes * static_cast<int>(started_)) {
      stop_all();
      throw Aborted(
          "workers were ended by signal {} {} times without progress (out of memory, or an "
          "instance "
          "that crashes the model?); saved are {} of {} instances, and the same command goes on "
          "from there",
          end.status - 128, crashes_, saved, job_.records());
    }
    log::warning("a worker was ended by signal {}; another goes on from what it saved",
                 end.status - 128);
    start();
  }

  // Whether the worker was at instances, which the next one answers in smaller groups.
  bool is_death_of_instances(pid_t process, int signal) {
    const auto death = serving::add_death(output_path_, job_, process, signal);
    if (!death) return false;
    if (++deaths_ > kMostDeaths) {
      stop_all();
      throw Aborted(
          "instances have ended {} workers, the last one by {}; the model is at fault, or there is "
          "too little memory. Saved are {} of {} instances, and the same command goes on from "
          "there",
          kMostDeaths, death->signal, look_at_shards(), job_.records());
    }
    log::warning("a worker was ended by signal {} while it computed {} instances from {} on; {}",
                 signal, death->group.count, death->group.first,
                 !death->is_deadly         ? "they are tried again"
                 : death->group.count == 1 ? "it is left out"
                                           : "they are tried in halves");
    return true;
  }

  // Workers pass over shards that another process has; workers of a command that was killed end
  // soon, and leave theirs behind.
  void start_for_what_is_left() {
    look_at_shards();
    if (std::ranges::count(published_, false) == 0) return;
    if (!orphan_deadline_) orphan_deadline_ = Deadline::after(kOrphanPatience);
    if (orphan_deadline_->expired()) {
      throw FailedPrecondition(
          "another process works on shards of {} and does not end; stop it and run this again",
          output_path_.string());
    }
    ::usleep(200'000);
    start();
  }

  void stop_all() {
    for (const auto& worker : workers_) worker->stop();
    const Deadline deadline = Deadline::after(kStopPatience);
    while (!workers_.empty() && !deadline.expired()) {
      wait_for_lines();
      std::erase_if(workers_, [](const auto& worker) { return worker->end().has_value(); });
    }
    workers_.clear();  // Those that are left are killed; what they saved is there.
  }

  [[noreturn]] void stop_for(int signal) {
    stop_all();
    progress_.clear();
    throw Interrupted(signal, "stopped with {} of {} instances saved; the same command continues",
                      look_at_shards(), job_.records());
  }

  const Path& output_path_;
  const BatchJob& job_;
  const BatchWorkerOptions& options_;
  WorkerProgram& program_;
  std::vector<std::uint64_t> done_;
  std::vector<bool> published_{};
  std::uint64_t before_;
  Progress progress_;
  Clock::time_point next_log_ = Clock::now() + kLogEvery;
  std::vector<std::unique_ptr<BatchWorker>> workers_{};
  /// Workers at a time.
  std::uint64_t started_ = 0;
  int crashes_ = 0;
  int deaths_ = 0;
  std::uint64_t saved_at_crash_ = 0;
  std::optional<Deadline> orphan_deadline_{};
};

}  // namespace

void run_batch_workers(const Path& output_path, const BatchJob& job,
                       const BatchWorkerOptions& options, WorkerProgram& program) {
  BatchWorkers(output_path, job, options, program).run();
}

}  // namespace muster::cli
