// A training whose job folder lies in a store that fails: some calls of each run, or all for a
// while.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>

#include "muster/base/error.h"
#include "muster/platform/api.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/testing/eventually.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/latest_hash.h"
#include "tests/reachable_store.h"

namespace muster {
namespace {

using testing::CannedResponse;
using ::testing::HasSubstr;
using testing::HttpCall;
using testing::Outcome;
using testing::RunningProgram;
using testing::TempDir;
using testing::Words;
using testing::operator+;

constexpr int kSteps = 20;

/// Looks at a folder again and again as an evaluator or a server does, and remembers what it found
/// torn.
class Poller {
 public:
  explicit Poller(Path folder)
      : folder_(std::move(folder)), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            look();
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}

  /// Once more, then what was wrong.
  std::string finish() {
    thread_.request_stop();
    thread_.join();
    look();
    return flaws_;
  }
  std::size_t checkpoints() const { return seen_.size(); }

 private:
  void look() {
    try {
      for (const Path& prefix : find_checkpoints(folder_)) {
        if (!seen_.contains(prefix)) open_checkpoint(prefix);
        seen_.insert(prefix);
      }
      if (file_exists(folder_ / "checkpoint") && !latest_checkpoint(folder_)) {
        flaws_ += "the state file names no checkpoint\n";
      }
      for (const Path& dir : graph::exports_in(folder_ / "export/census")) {
        BundleReader(dir / "variables/variables").verify();
      }
    } catch (const Error& error) {
      flaws_ += std::string(error.what()) + "\n";
    }
  }

  const Path folder_;
  std::set<Path> seen_;
  std::string flaws_;
  std::jthread thread_;
};

class StoreFaults : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    data_ = new TempDir;
    const Outcome made =
        testing::run_program(MUSTER_PROGRAM, {"records", "synth", "census", "--output",
                                              data_->path(), "--train", "1000", "--test", "200"});
    ASSERT_EQ(made.status, 0) << made.err;
    const Outcome outcome = testing::run_program(CENSUS_PROGRAM, flags(*data_ / "job"));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    hash_ = new std::string(hash_of(*data_ / "job"));
  }
  static void TearDownTestSuite() {
    delete data_;
    delete hash_;
  }

  void SetUp() override {
    if (!MUSTER_HAS_STORES) GTEST_SKIP() << "built without libcurl or pugixml";
    start_store();
  }

  /// Behaviour that all stores share is tested with one of them, unless tests are long.
  bool is_left_to_long_tests(const std::string& tested) const {
    return scheme_ != tested && !testing::are_tests_long();
  }

  void start_store() {
    store_ = reachable_store(scheme_);
    fake_ = store_.fake.get();
    job_ = store_.root / "job";
    for (const std::string& setting : store_.environment) {
      const auto equals = setting.find('=');
      ::setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
    }
    register_stores();
  }

  static Words flags(const Path& job) {
    return {"--train-files",
            *data_ / "adult.data.csv",
            "--eval-files",
            *data_ / "adult.test.csv",
            "--job-dir",
            job,
            "--train-steps",
            std::to_string(kSteps),
            "--save-checkpoints-steps",
            "5",
            "--threads-per-replica",
            "1",
            "--eval-batch-size",
            "200",
            "--seed",
            "3"};
  }

  static inline TempDir* data_ = nullptr;
  /// Hash of the same run on a disk.
  static inline std::string* hash_ = nullptr;
  const std::string scheme_ = GetParam();
  ReachableStore store_;
  testing::FakeStore* fake_ = nullptr;
  Path job_;
};

INSTANTIATE_TEST_SUITE_P(, StoreFaults, ::testing::Values("s3", "gs", "hdfs"),
                         [](const auto& scheme) { return std::string(scheme.param); });

TEST_P(StoreFaults, ATenthOfAllCallsChangesNothing) {
  const std::uint64_t runs = testing::are_tests_long() ? 100 : 1;
  for (std::uint64_t seed = 0; seed < runs; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    start_store();
    fake_->fail_randomly(10, seed);
    Poller poller(job_);
    const Outcome outcome = testing::run_program(CENSUS_PROGRAM, flags(job_));
    fake_->fail_randomly(0, 0);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(poller.finish(), "");
    EXPECT_EQ(poller.checkpoints(), 5U) << outcome.err;
    EXPECT_EQ(hash_of(job_), *hash_);
    EXPECT_EQ(graph::exports_in(job_ / "export/census").size(), 1U);
    EXPECT_EQ(fake_->orphans(), 0U);
    EXPECT_FALSE(store_.bytes_of("job/.muster-writer")) << "the claim was not given up";
  }
}

TEST_P(StoreFaults, ATrainingGoesOnWhileTheStoreIsAwayAndCatchesUp) {
  if (is_left_to_long_tests("hdfs")) GTEST_SKIP() << "MUSTER_LONG_TESTS=1 has it";
  // From the first write of one checkpoint until the first of the next.
  std::atomic<bool> is_away{false}, is_back{false};
  fake_->set_fault([&](const HttpCall& call) -> std::optional<CannedResponse> {
    if (call.method == "GET" || call.method == "HEAD") return std::nullopt;
    const std::string target = call.path + "?" + call.query;
    if (target.find("model.ckpt-10") != std::string::npos) is_away = true;
    if (target.find("model.ckpt-15") != std::string::npos) is_back = true;
    if (!is_away || is_back) return std::nullopt;
    return CannedResponse{.hang_up = true};
  });
  const Outcome outcome =
      testing::run_program(CENSUS_PROGRAM, flags(job_), with_two_tries(scheme_));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("could not save a checkpoint, training goes on"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("summaries are no longer written")));
  EXPECT_EQ(hash_of(job_), *hash_);
}

TEST_P(StoreFaults, ATrainingWhoseStoreStaysAwayEndsWithAClearError) {
  if (is_left_to_long_tests("gs")) GTEST_SKIP() << "MUSTER_LONG_TESTS=1 has it";
  fake_->set_fault([&](const HttpCall&) -> std::optional<CannedResponse> {
    if (!store_.bytes_of("job/model.ckpt-5.index")) return std::nullopt;
    return CannedResponse{.hang_up = true};
  });
  const Outcome outcome =
      testing::run_program(CENSUS_PROGRAM, flags(job_), with_two_tries(scheme_));
  EXPECT_EQ(outcome.status, 75) << "a temporary failure\n" << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(job_.string()));
}

}  // namespace
}  // namespace muster
