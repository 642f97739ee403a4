#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/random.h"
#include "muster/orchestration/tuning/study.h"
#include "muster/orchestration/tuning/study_test_internal.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/temp_dir.h"

namespace muster::tuning {
namespace {

using muster::testing::TempDir;

// Those whose environment names this folder's study.
std::vector<pid_t> trials_of(const Path& job_dir) {
  const std::string mark = "MUSTER_STUDY=" + (job_dir / "study").string();
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = item.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream file(item.path() / "environ", std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    if (text.find(mark) != text.npos) found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

// A study in a process of its own.
class StudyProcess {
 public:
  explicit StudyProcess(const StudyOptions& options) : process_(::fork()) {
    if (process_ != 0) return;
    try {
      run_study(options);
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  ~StudyProcess() { kill(); }
  StudyProcess(const StudyProcess&) = delete;
  StudyProcess& operator=(const StudyProcess&) = delete;

  bool has_ended() {
    if (process_ > 0 && ::waitpid(process_, nullptr, WNOHANG) == process_) process_ = -1;
    return process_ < 0;
  }
  void kill() {
    if (has_ended()) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_;
};

struct Kills {
  int of_studies = 0;
  int of_trials = 0;

  int all() const { return of_studies + of_trials; }
};

using Milliseconds = std::chrono::duration<double, std::milli>;

// Runs a study, which takes so long undisturbed, to its end through at most this many kills: of the
// study, of a trial, or of both.
void run_through_kills(const StudyOptions& options, Milliseconds whole, int most, Random& random,
                       Kills& kills) {
  const int before = kills.all();
  while (kills.all() - before < most) {
    StudyProcess study(options);
    // On a slow machine too, a study comes to its trials before it is killed.
    std::this_thread::sleep_for(Milliseconds(10) + whole / 3 * random.uniform());
    const bool kills_study = random.coin(0.7);
    if (random.coin(0.5)) {
      // A trial that is killed three times while its study runs is given up; one here is enough.
      for (const pid_t trial : trials_of(options.job_dir)) {
        kills.of_trials += ::kill(trial, SIGKILL) == 0 ? 1 : 0;
      }
      if (!kills_study) std::this_thread::sleep_for(std::chrono::milliseconds(random.below(100)));
    }
    if (study.has_ended()) break;
    study.kill();
    ++kills.of_studies;
  }
  run_study(options);
}

// The table of an undisturbed study, and of as many disturbed ones as take this many kills.
void expect_same_table(const TempDir& folder, const std::string& name,
                       const std::string& hyperparameters, int most_kills,
                       const std::vector<std::string>& command = trainer()) {
  StudyOptions options{
      .hyperparameters = hyperparameters, .job_dir = folder / (name + "whole"), .command = command};
  const auto begin = std::chrono::steady_clock::now();
  const auto expected = table_of(run_study(options));
  const Milliseconds whole = std::chrono::steady_clock::now() - begin;
  Random random(5);
  Kills kills;
  int studies = 0;
  for (; kills.all() < most_kills; ++studies) {
    options.job_dir = folder / fmt::format("{}{}", name, studies);
    run_through_kills(options, whole, most_kills - kills.all(), random, kills);
    ASSERT_EQ(table_of(read_study(options.job_dir)), expected) << options.job_dir;
  }
  fmt::print("{}: {} kills of studies and {} of trials in {} studies\n", name, kills.of_studies,
             kills.of_trials, studies);
}

// MUSTER_LONG_TESTS=1 kills a hundred times each.
int most_kills() { return muster::testing::are_tests_long() ? 100 : 6; }

TEST(StudyKill, LeavesTheTrialsOfAnUndisturbedStudy) {
  const TempDir folder;
  for (const int parallel : {1, 2}) {
    expect_same_table(folder, fmt::format("plain{}-", parallel), spec_of(10, parallel),
                      most_kills());
  }
}

TEST(StudyKill, LeavesPausedTrialsWhereTheyWere) {
  const TempDir folder;
  for (const int parallel : {1, 2}) {
    expect_same_table(folder, fmt::format("asha{}-", parallel), spec_of(9, parallel, kAsha),
                      most_kills());
  }
}

TEST(StudyKill, LeavesThePopulationOfAnUndisturbedStudy) {
  const TempDir folder;
  for (const int parallel : {1, 2}) {
    expect_same_table(folder, fmt::format("population{}-", parallel),
                      spec_of(12, parallel, kPopulation), most_kills());
  }
}

TEST(StudyKill, LeavesTrialsThatGoOnFromThoseWithFewerSteps) {
  const TempDir folder;
  for (const int parallel : {1, 2}) {
    expect_same_table(folder, fmt::format("prefixes{}-", parallel), prefix_grid(parallel),
                      most_kills(), trainer_without_steps());
  }
}

}  // namespace
}  // namespace muster::tuning
