#pragma once

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/data/checkpoint/checkpoint.h"
#include "muster/orchestration/launch/ports.h"
#include "muster/testing/hosts/hosts.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {

struct TaskClusterOptions {
  bool has_evaluator = false;
  /// Whether all tasks are started at once; else start() and start_all() do.
  bool starts = true;
  /// Environment of every task, beside TF_CONFIG.
  testing::Words environment{};
  /// Whether all tasks have the chief's folder, as on a disk that they share.
  bool shares_folder = false;
  /// Where tasks run, dealt in turn, with addresses by name; else all are here, on loopback.
  const testing::Hosts* hosts = nullptr;
};

/// A chief, workers and servers as processes of CLUSTER_JOB, each with a model folder of its own
/// unless they share one. Task 0 is the chief, then come workers, then servers, and an evaluator
/// where there is one, which has the chief's folder.
class TaskCluster {
 public:
  TaskCluster(std::size_t workers, std::size_t servers, testing::Words flags,
              TaskClusterOptions options = {})
      : workers_(workers),
        servers_(servers),
        flags_(std::move(flags)),
        environment_(std::move(options.environment)),
        shares_folder_(options.shares_folder),
        hosts_(options.hosts),
        ports_(1 + workers + servers, {}) {
    cluster_ = fmt::format(R"({{"chief": [{}], "worker": [{}], "ps": [{}]}})", addresses(0, 1),
                           addresses(1, workers), addresses(1 + workers, servers));
    tasks_.resize(1 + workers + servers + (options.has_evaluator ? 1 : 0));
    if (options.starts) start_all();
  }

  std::size_t size() const { return tasks_.size(); }
  std::string name(std::size_t task) const {
    if (task == 0) return "chief-0";
    if (is_evaluator(task)) return "evaluator-0";
    return task <= workers_ ? fmt::format("worker-{}", task - 1)
                            : fmt::format("ps-{}", task - 1 - workers_);
  }
  bool is_evaluator(std::size_t task) const { return task > workers_ + servers_; }
  Path folder(std::size_t task) const {
    return shares_folder_ || is_evaluator(task) ? chief_folder() : folder_ / name(task);
  }
  Path chief_folder() const { return folder_ / name(0); }
  /// Working folder of all tasks.
  const Path& root() const { return folder_.path(); }
  /// Where a task runs, if hosts were given.
  std::size_t host_of(std::size_t task) const { return task % hosts_->size(); }

  void start_all() {
    for (std::size_t i = 0; i < tasks_.size(); ++i) start(i);
  }
  void start(std::size_t task, const testing::ProgramOptions& options = {},
             const testing::Words& more = {}) {
    using testing::operator+;
    const std::string place = name(task);
    const auto dash = place.find('-');
    testing::ProgramOptions own = options;
    own.environment = own.environment + environment_;
    own.environment.push_back(
        fmt::format(R"(TF_CONFIG={{"cluster": {}, "task": {{"type": "{}", "index": {}}}}})",
                    cluster_, place.substr(0, dash), place.substr(dash + 1)));
    if (hosts_ != nullptr) {
      own.environment.push_back(hosts_->space(host_of(task)).variable());
    }
    tasks_[task] = std::make_unique<testing::RunningProgram>(
        CLUSTER_JOB, testing::Words{"--model-dir", folder(task).string()} + flags_ + more, own);
  }
  void kill(std::size_t task, int signal = SIGKILL) { tasks_[task]->send(signal); }
  /// Whether it has written this to its log.
  bool says(std::size_t task, const std::string& words) const {
    return tasks_[task]->err().find(words) != std::string::npos;
  }
  /// As a supervisor of tasks does.
  void kill_and_start(std::size_t task) {
    kill(task);
    wait(task);
    start(task);
  }
  bool ended(std::size_t task) { return tasks_[task]->ended(); }
  testing::Outcome wait(std::size_t task) { return tasks_[task]->wait(); }
  /// Output of each task, the chief's first; all must exit with status 0.
  std::vector<std::string> wait_all() {
    std::vector<std::string> logs;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const testing::Outcome outcome = wait(i);
      EXPECT_EQ(outcome.status, 0) << name(i) << "\n" << outcome.err;
      logs.push_back(outcome.err);
    }
    return logs;
  }
  /// The chief's end is the run's; a task that came too late to learn of it is ended by the
  /// program that started it, as launch does. Returns the output of the chief.
  std::string wait_for_chief_and_end_the_rest() {
    const testing::Outcome chief = wait(0);
    EXPECT_EQ(chief.status, 0) << chief.err;
    for (std::size_t i = 1; i < tasks_.size(); ++i) {
      kill(i, SIGTERM);
      const testing::Outcome outcome = wait(i);
      EXPECT_THAT(outcome.status, ::testing::AnyOf(0, 128 + SIGTERM)) << name(i) << "\n"
                                                                      << outcome.err;
    }
    return chief.err;
  }
  /// Step of the chief's last checkpoint; 0 without one.
  std::int64_t saved_step() const {
    const auto latest = latest_checkpoint(chief_folder());
    return latest ? checkpoint_step(*latest).value_or(0) : 0;
  }
  /// Until the chief has saved this step or a later one; false when it ended before.
  bool wait_for_step(std::int64_t step) {
    while (!ended(0)) {
      if (saved_step() >= step && latest_checkpoint(chief_folder())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const testing::Outcome chief = wait(0);
    ADD_FAILURE() << "the chief ended before step " << step << ": " << chief.status << "\n"
                  << chief.err;
    return false;
  }

 private:
  std::string addresses(std::size_t first, std::size_t count) const {
    std::string list;
    for (std::size_t task = first; task < first + count; ++task) {
      list += fmt::format("{}\"{}:{}\"", list.empty() ? "" : ", ",
                          hosts_ == nullptr ? "127.0.0.1" : testing::Hosts::name(host_of(task)),
                          ports_[task]);
    }
    return list;
  }

  testing::TempDir folder_;
  std::size_t workers_;
  std::size_t servers_;
  testing::Words flags_;
  testing::Words environment_;
  bool shares_folder_;
  const testing::Hosts* hosts_;
  launch::ReservedPorts ports_;
  std::string cluster_;
  std::vector<std::unique_ptr<testing::RunningProgram>> tasks_;
};

}  // namespace muster
