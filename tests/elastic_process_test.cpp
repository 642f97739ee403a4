// Workers that come and go while a launch runs, by `muster launch scale`.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "muster/data/checkpoint/checkpoint.h"
#include "muster/testing/process.h"
#include "muster/testing/stand_in.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/latest_hash.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::RunningProgram;
using testing::TempDir;
using testing::Words;
using testing::operator+;

const Words kFlags{"--steps", "200", "--replicas", "5", "--save-steps", "10"};

/// A chief and one to four workers.
class ElasticLaunch {
 public:
  ElasticLaunch()
      : launcher_(MUSTER_PROGRAM, Words{"launch", "--chief", "--workers", "1:4", "--ps", "0",
                                        "--log-dir", logs().string(), "--no-training-log", "--",
                                        testing::warm_stand_in(CLUSTER_JOB), "--model-dir",
                                        model_dir().string(), "--step-ms", "10"} +
                                      kFlags) {}

  Path model_dir() const { return folder_ / "model"; }
  Path logs() const { return folder_ / "logs"; }
  Outcome scale(const std::string& workers) const {
    return testing::run_program(MUSTER_PROGRAM,
                                {"launch", "scale", workers, "--log-dir", logs().string()});
  }
  /// Until the chief's last generation has so many workers; false when the launch ended before.
  bool wait_for_workers(std::size_t workers) {
    return wait_until([&] { return workers_now() == workers; });
  }
  bool wait_for_steps(std::int64_t more) {
    const std::int64_t to = saved_step() + more;
    return wait_until([&] { return saved_step() >= to; });
  }
  Outcome wait() { return launcher_.wait(); }

 private:
  template <typename Holds>
  bool wait_until(Holds holds) {
    while (!launcher_.ended()) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const Outcome launcher = launcher_.wait();
    ADD_FAILURE() << "the launch ended with " << launcher.status << "\n" << launcher.err;
    return false;
  }
  std::int64_t saved_step() const {
    const auto latest = latest_checkpoint(model_dir());
    return latest ? checkpoint_step(*latest).value_or(0) : 0;
  }
  std::size_t workers_now() const {
    const Path log = logs() / "chief.log";
    if (!std::filesystem::exists(log)) return 0;
    const std::string text = testing::read_bytes(log);
    const auto start = text.rfind(": replicas of chief:0");
    if (start == std::string::npos) return 0;
    const std::string line = text.substr(start, text.find('\n', start) - start);
    std::size_t count = 0;
    for (auto at = line.find("worker:"); at != line.npos; at = line.find("worker:", at + 1)) {
      ++count;
    }
    return count;
  }

  TempDir folder_;
  RunningProgram launcher_;
};

TEST(Elastic, WorkersThatComeAndGoChangeNothing) {
  ElasticLaunch launch;
  ASSERT_TRUE(launch.wait_for_workers(1));
  ASSERT_TRUE(launch.wait_for_steps(10));
  EXPECT_EQ(launch.scale("4").out, "workers: 4\n");
  ASSERT_TRUE(launch.wait_for_workers(4));
  ASSERT_TRUE(launch.wait_for_steps(20));
  EXPECT_EQ(launch.scale("2").out, "workers: 2\n");
  ASSERT_TRUE(launch.wait_for_workers(2));
  const Outcome refused = launch.scale("5");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("may have 1 to 4 workers: 5"));
  const Outcome outcome = launch.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("scaling from 4 to 2 workers"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("failed")));
  const TempDir alone;
  const Outcome quiet =
      testing::run_program(CLUSTER_JOB, Words{"--model-dir", alone.path().string()} + kFlags);
  EXPECT_EQ(quiet.status, 0) << quiet.err;
  EXPECT_EQ(hash_of(launch.model_dir()), hash_of(alone.path()));
}

TEST(Elastic, ALaunchOfAFixedNumberOrNoneSaysSo) {
  const TempDir folder;
  const Outcome outcome = testing::run_program(
      MUSTER_PROGRAM, {"launch", "scale", "2", "--log-dir", folder.path().string()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no launch uses"));
}

}  // namespace
}  // namespace muster
