// Runs in every layout whose tasks are killed, stopped for a while and asked to end, one and two at
// a time, at moments that follow from a seed, and started again. What must hold of each: the
// weights of a quiet run where the layout promises them, the last step on the disk before anybody
// says that the run ended, true exit statuses, no error in a log, nothing left behind.
//
//   MUSTER_CHAOS_SEED=7 MUSTER_CHAOS_FAULTS=9 MUSTER_TEST_SECONDS=900
//       chaos_test --gtest_filter='*RandomFaults*'
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/checkpoint/step_log_check.h"
#include "muster/testing/message_of.h"
#include "muster/testing/stand_in.h"
#include "tests/latest_hash.h"
#include "tests/task_cluster.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Outcome;
using testing::RunningProgram;
using testing::Words;
using testing::operator+;

constexpr std::int64_t kSaveSteps = 10;
constexpr auto kPeerTimeout = 1500ms;
constexpr auto kLook = 5ms;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::size_t fault_count() { return number_from("MUSTER_CHAOS_FAULTS", 3); }
std::int64_t last_step() { return 40 + 20 * static_cast<std::int64_t>(fault_count()); }

struct FaultLayout {
  std::string name;
  std::size_t workers = 2;
  std::size_t servers = 0;
  Words flags{};
  bool evaluator = false;
  /// By `muster launch --restart on-failure`, with a master that evaluates; else by the test.
  bool launched = false;
  /// Whether the weights are those of a quiet run, whichever tasks were lost.
  bool exact = true;
};

// For messages of failed tests.
void PrintTo(const FaultLayout& layout, std::ostream* out) { *out << layout.name; }

Words run_flags() {
  return {"--steps",      std::to_string(last_step()), "--replicas", "4",
          "--save-steps", std::to_string(kSaveSteps)};
}

Words task_flags(const FaultLayout& layout) {
  return run_flags() +
         Words{"--evaluate", "--step-ms", "10", "--peer-timeout-ms",
               std::to_string(std::chrono::milliseconds(kPeerTimeout).count())} +
         layout.flags;
}

struct Fault {
  /// It comes when this step is saved, and so much later.
  std::int64_t step = 0;
  std::chrono::duration<double> delay{};
  struct Hit {
    std::size_t task = 0;
    int signal = SIGKILL;
    /// Time from SIGSTOP to SIGCONT.
    std::chrono::duration<double> pause{};
  };
  std::vector<Hit> hits{};
};

Fault::Hit draw_hit(Random& random, std::size_t tasks) {
  constexpr std::array kSignals{SIGKILL, SIGKILL, SIGSTOP, SIGTERM};
  const double longest = 1.5 * std::chrono::duration<double>(kPeerTimeout).count();
  return {.task = random.below(tasks),
          .signal = kSignals[random.below(kSignals.size())],
          .pause = std::chrono::duration<double>(random.uniform(0.05, longest))};
}

// By step. The last one comes when the last step is made or saved.
std::vector<Fault> draw_faults(std::uint64_t seed, const std::string& layout, std::size_t tasks) {
  Random random(seed, 0, std::hash<std::string>{}(layout));
  std::vector<Fault> faults;
  for (std::size_t drawn = 0; drawn < fault_count(); drawn += faults.back().hits.size()) {
    Fault fault{.step = static_cast<std::int64_t>(
                    random.below(static_cast<std::uint64_t>(last_step() + 1))),
                .delay = std::chrono::duration<double>(random.uniform(0, 0.15))};
    fault.hits.push_back(draw_hit(random, tasks));
    if (random.coin(0.25)) fault.hits.push_back(draw_hit(random, tasks));
    faults.push_back(std::move(fault));
  }
  faults.front().step = last_step() - kSaveSteps;
  std::ranges::stable_sort(faults, {}, &Fault::step);
  return faults;
}

/// The entry of the run in MODEL_DIR/muster.json.
struct SaidOfRun {
  bool ended = false;
  std::int64_t step = 0;
};

SaidOfRun said_in(const Path& model_dir) {
  std::ifstream file(model_dir / "muster.json");
  if (!file) return {};
  const auto notes = nlohmann::json::parse(file);
  if (!notes.contains("run")) return {};
  return {notes["run"]["ended"].get<bool>(), notes["run"]["global_step"].get<std::int64_t>()};
}

std::int64_t saved_step_in(const Path& model_dir) {
  const auto latest = latest_checkpoint(model_dir);
  return latest ? checkpoint_step(*latest).value_or(0) : 0;
}

/// A run with a supervisor of its tasks.
class WatchedRun {
 public:
  virtual ~WatchedRun() = default;
  virtual std::size_t size() const = 0;
  virtual std::string name(std::size_t task) const = 0;
  /// False when the task is not there just now.
  virtual bool send(std::size_t task, int signal) = 0;
  /// Starts what has ended and is to go on.
  virtual void tend() = 0;
  /// Whether the chief has ended for good.
  virtual bool is_over() = 0;
  /// Ends the rest as a supervisor does. Returns the output of tasks, by name.
  virtual std::map<std::string, std::string> finish() = 0;
  virtual Path model_dir() const = 0;
  /// Everything that the run wrote.
  virtual Path root() const = 0;
  virtual std::vector<Path> server_folders() const = 0;
};

/// Each task has its own folder, and the test starts again what ended.
class TendedRun : public WatchedRun {
 public:
  explicit TendedRun(const FaultLayout& layout)
      : layout_(layout),
        cluster_(layout.workers, layout.servers, task_flags(layout),
                 {.has_evaluator = layout.evaluator}),
        sent_(cluster_.size()),
        left_(cluster_.size()) {}

  std::size_t size() const override { return cluster_.size(); }
  std::string name(std::size_t task) const override { return cluster_.name(task); }
  Path model_dir() const override { return cluster_.chief_folder(); }
  Path root() const override { return cluster_.root(); }
  std::vector<Path> server_folders() const override {
    std::vector<Path> folders;
    folders.reserve(layout_.servers);
    for (std::size_t i = 0; i < layout_.servers; ++i) {
      folders.push_back(cluster_.folder(1 + layout_.workers + i));
    }
    return folders;
  }

  bool send(std::size_t task, int signal) override {
    if (left_[task] || cluster_.ended(task)) return false;
    sent_[task].insert(signal);
    cluster_.kill(task, signal);
    return true;
  }

  void tend() override {
    for (std::size_t task = 0; task < size() && !over_; ++task) {
      if (!left_[task] && cluster_.ended(task)) follow_end(task);
    }
  }

  bool is_over() override { return over_; }

  std::map<std::string, std::string> finish() override {
    const auto limit = Clock::now() + 5s;
    for (std::size_t task = 1; task < size(); ++task) {
      if (left_[task]) continue;
      // One that came back after all others had left waits for the chief, and is asked to end.
      while (!cluster_.is_evaluator(task) && !cluster_.ended(task) && Clock::now() < limit) {
        std::this_thread::sleep_for(kLook);
      }
      if (!cluster_.is_evaluator(task) && !cluster_.ended(task)) {
        sent_[task].insert(SIGTERM);
        cluster_.kill(task, SIGTERM);
      }
      const int status = note_end(task);
      // The supervisor starts it again, and it finds out that there is one checkpoint to evaluate.
      if (cluster_.is_evaluator(task) && status != 0) {
        sent_[task].clear();
        cluster_.start(task);
        note_end(task);
      }
    }
    return logs_;
  }

 private:
  void follow_end(std::size_t task) {
    const int status = note_end(task);
    if (over_) return;
    if (task == 0 && status == 0) {
      over_ = true;
      return;
    }
    // Its part of the run is over.
    if (status == 0) {
      left_[task] = true;
      return;
    }
    // Also where it was killed while it ended the run.
    if (task == 0) was_asked_ = sent_[task].contains(SIGTERM);
    sent_[task].clear();
    cluster_.start(task);
  }

  // Whether the end follows from what was done to the task.
  int note_end(std::size_t task) {
    const Outcome outcome = cluster_.wait(task);
    logs_[name(task)] += outcome.err;
    // A chief that is asked to stop stops the others before it ends.
    const bool chief_was_asked = was_asked_ || sent_[0].contains(SIGTERM);
    const bool is_over = saved_step_in(model_dir()) >= last_step();
    const bool is_true = outcome.status == 128 + SIGKILL ? sent_[task].contains(SIGKILL)
                         : outcome.status == 128 + SIGTERM
                             ? sent_[task].contains(SIGTERM) || chief_was_asked
                             : outcome.status == 0 && is_over;
    // Else it would be started again and again.
    if (!is_true) over_ = true;
    EXPECT_TRUE(is_true) << name(task) << " ended with " << outcome.status << ", step "
                         << saved_step_in(model_dir()) << " is saved\n"
                         << outcome.err;
    return outcome.status;
  }

  const FaultLayout layout_;
  TaskCluster cluster_;
  /// By task: what was sent to the process that is there now.
  std::vector<std::set<int>> sent_;
  std::vector<bool> left_;
  /// Whether the chief before this one ended the run because it was asked to.
  bool was_asked_ = false;
  bool over_ = false;
  std::map<std::string, std::string> logs_;
};

/// Started and started again by `muster launch`, with one folder for all.
class LaunchedRun : public WatchedRun {
 public:
  explicit LaunchedRun(const FaultLayout& layout)
      : layout_(layout),
        launcher_(MUSTER_PROGRAM,
                  Words{"launch", "--workers", std::to_string(layout.workers), "--ps",
                        std::to_string(layout.servers), "--restart", "on-failure:1000", "--log-dir",
                        logs().string(), "--no-training-log", "--",
                        testing::warm_stand_in(CLUSTER_JOB), "--model-dir", folder_ / "model"} +
                      task_flags(layout)) {
    tasks_.emplace_back("master");
    for (std::size_t i = 0; i < layout.workers; ++i) tasks_.push_back(fmt::format("worker{}", i));
    for (std::size_t i = 0; i < layout.servers; ++i) tasks_.push_back(fmt::format("ps{}", i));
  }

  std::size_t size() const override { return tasks_.size(); }
  std::string name(std::size_t task) const override { return tasks_[task]; }
  Path model_dir() const override { return folder_ / "model"; }
  Path root() const override { return folder_.path(); }
  std::vector<Path> server_folders() const override { return {model_dir()}; }
  void tend() override {}
  bool is_over() override { return launcher_.ended(); }

  bool send(std::size_t task, int signal) override {
    std::ifstream file(logs() / (tasks_[task] + ".pid"));
    pid_t stand_in = 0;
    if (!(file >> stand_in)) return false;
    const pid_t process = testing::warm_fork_of(stand_in);
    return process > 0 && ::kill(process, signal) == 0;
  }

  std::map<std::string, std::string> finish() override {
    const Outcome launcher = launcher_.wait();
    EXPECT_EQ(launcher.status, 0) << launcher.err;
    std::istringstream lines(launcher.err);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(" failed ") == std::string::npos) continue;
      EXPECT_THAT(line, AnyOf(HasSubstr("signal=9:"), HasSubstr("status=143:"),
                              // Asked to end before it could hear it.
                              HasSubstr("signal=15:")));
    }
    std::map<std::string, std::string> logs_of;
    for (const std::string& task : tasks_) {
      logs_of[task] = testing::read_bytes(logs() / (task + ".log"));
    }
    for (const auto& entry : std::filesystem::directory_iterator(logs())) {
      EXPECT_EQ(entry.path().extension(), ".log") << entry.path();
    }
    return logs_of;
  }

 private:
  Path logs() const { return folder_ / "logs"; }

  const FaultLayout layout_;
  testing::TempDir folder_;
  std::vector<std::string> tasks_;
  RunningProgram launcher_;
};

std::unique_ptr<WatchedRun> start(const FaultLayout& layout) {
  if (layout.launched) return std::make_unique<LaunchedRun>(layout);
  return std::make_unique<TendedRun>(layout);
}

/// Has faults befall a run until they or it are over.
class Faults {
 public:
  explicit Faults(WatchedRun& run) : run_(run) {}

  void befall(const std::vector<Fault>& faults) {
    for (const Fault& fault : faults) {
      watch_until([&] { return saved_step_in(run_.model_dir()) >= fault.step; });
      const auto due = Clock::now() + std::chrono::duration_cast<Clock::duration>(fault.delay);
      watch_until([&] { return Clock::now() >= due; });
      if (run_.is_over()) break;
      for (const Fault::Hit& hit : fault.hits) strike(hit);
    }
    watch_until([] { return false; });
    while (!stopped_.empty()) go_on_if_due(Clock::time_point::max());
  }
  std::size_t count() const { return count_; }

 private:
  template <typename Holds>
  void watch_until(Holds holds) {
    while (!run_.is_over() && !holds()) {
      go_on_if_due(Clock::now());
      run_.tend();
      const SaidOfRun said = said_in(run_.model_dir());
      if (said.ended && !is_disproved_) {
        is_disproved_ = saved_step_in(run_.model_dir()) < said.step;
        EXPECT_FALSE(is_disproved_) << "muster.json says that the run ended at step " << said.step
                                    << ", which is not saved";
      }
      std::this_thread::sleep_for(kLook);
    }
  }

  void strike(const Fault::Hit& hit) {
    if (stopped_.contains(hit.task) || !run_.send(hit.task, hit.signal)) return;
    ++count_;
    fmt::print("fault {} behind step {}: signal {} to {}\n", count_,
               saved_step_in(run_.model_dir()), hit.signal, run_.name(hit.task));
    std::fflush(stdout);
    if (hit.signal == SIGSTOP) {
      stopped_[hit.task] = Clock::now() + std::chrono::duration_cast<Clock::duration>(hit.pause);
    }
  }

  void go_on_if_due(Clock::time_point now) {
    std::erase_if(stopped_, [&](const auto& entry) {
      if (now < entry.second) return false;
      run_.send(entry.first, SIGCONT);
      return true;
    });
  }

  WatchedRun& run_;
  std::map<std::size_t, Clock::time_point> stopped_;
  std::size_t count_ = 0;
  bool is_disproved_ = false;
};

const std::string& quiet_hash() {
  static const std::string hash = [] {
    const testing::TempDir folder;
    const Outcome outcome = testing::run_program(
        CLUSTER_JOB, Words{"--model-dir", folder.path().string()} + run_flags());
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return hash_of(folder.path());
  }();
  return hash;
}

std::vector<std::string> temporary_files_in(const Path& root) {
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) {
      left.push_back(entry.path().string());
    }
  }
  return left;
}

// Command lines that name the folder of the run.
std::vector<std::string> processes_of(const Path& root) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::string line;
    std::getline(file, line);
    if (line.find(root.string()) != std::string::npos) found.push_back(line);
  }
  return found;
}

// Faults that a run survives need no action, so its logs must have no errors.
std::vector<std::string> errors_in(const std::string& log) {
  std::vector<std::string> errors;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    // 2026-03-01T10:04:11.532 E ...
    if (line.size() > 25 && line.substr(23, 3) == " E ") errors.push_back(line);
  }
  return errors;
}

void expect_whole(const FaultLayout& layout, WatchedRun& run) {
  const auto logs = run.finish();
  for (const auto& [task, log] : logs)
    EXPECT_THAT(errors_in(log), IsEmpty()) << task << "\n" << log;
  EXPECT_THAT(processes_of(run.root()), IsEmpty());
  EXPECT_THAT(temporary_files_in(run.root()), IsEmpty());
  const std::int64_t saved = saved_step_in(run.model_dir());
  const SaidOfRun said = said_in(run.model_dir());
  EXPECT_TRUE(said.ended);
  EXPECT_EQ(said.step, saved);
  const bool is_async = std::ranges::find(layout.flags, "--sync=false") != layout.flags.end();
  EXPECT_GE(saved, last_step());
  EXPECT_LE(saved, last_step() + (is_async ? static_cast<std::int64_t>(layout.workers) : 0));
  if (layout.exact) {
    EXPECT_EQ(hash_of(run.model_dir()), quiet_hash());
  }
  if (std::ranges::find(layout.flags, "--ps-log") != layout.flags.end()) {
    EXPECT_EQ(testing::message_of([&] { check_step_logs(run.server_folders()); }),
              "nothing was thrown");
    for (const auto& [task, log] : logs) {
      EXPECT_THAT(log, Not(HasSubstr("go back to the last checkpoint"))) << task;
    }
  }
  if (layout.evaluator) {
    EXPECT_THAT(logs.at("evaluator-0"),
                HasSubstr(fmt::format("the evaluator ends: step {} is evaluated", saved)));
  }
  if (layout.launched) {
    EXPECT_THAT(logs.at("master"), HasSubstr(fmt::format("Saving dict for global step {}", saved)));
  }
}

class RandomFaults : public ::testing::TestWithParam<FaultLayout> {};

TEST_P(RandomFaults, LoseNothing) {
  const FaultLayout& layout = GetParam();
  const std::uint64_t seed = number_from("MUSTER_CHAOS_SEED", 1);
  const auto run = start(layout);
  Faults faults(*run);
  faults.befall(draw_faults(seed, layout.name, run->size()));
  expect_whole(layout, *run);
  fmt::print("layout={} MUSTER_CHAOS_SEED={} faults={} {}\n", layout.name, seed, faults.count(),
             HasFailure() ? "FAILED" : "as it should be");
}

INSTANTIATE_TEST_SUITE_P(
    Each, RandomFaults,
    ::testing::Values(
        FaultLayout{.name = "PsWithLog", .servers = 2, .flags = {"--ps-log"}},
        FaultLayout{.name = "PsWithoutLog", .servers = 2}, FaultLayout{.name = "Collective"},
        FaultLayout{.name = "Async", .servers = 2, .flags = {"--sync=false"}, .exact = false},
        FaultLayout{.name = "BackupReplicas",
                    .servers = 2,
                    .flags = {"--backup-replicas", "1"},
                    .exact = false},
        FaultLayout{.name = "Evaluator", .servers = 1, .evaluator = true},
        FaultLayout{.name = "Launched", .servers = 2, .flags = {"--ps-log"}, .launched = true}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace muster
