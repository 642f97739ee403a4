// `muster jobs describe` of a job with hyperparameters.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/data/summary/event_writer.h"
#include "muster/orchestration/jobs/job_store.h"
#include "muster/orchestration/tuning/state_checksum.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A trial of a study that minimizes, as `muster tune` keeps it.
std::string trial_text(int id, double value) {
  return tuning::with_checksum(fmt::format(
      R"({{"trialId": "{0}", "state": "SUCCEEDED", "hyperparameters": {{"rate": "0.{0}"}},
    "finalMetric": {{"trainingStep": "200", "objectiveValue": {1}}},
    "allMetrics": [{{"trainingStep": "200", "objectiveValue": {1}}}], "otherMetrics": {{}},
    "startTime": 1794737971.5, "endTime": 1794737972.0}})",
      id, value));
}

class JobsOfStudies : public ::testing::Test {
 protected:
  JobsOfStudies() {
    jobs::Job job{.job_id = "tuned",
                  .state = jobs::State::kSucceeded,
                  .create_time = std::chrono::system_clock::now()};
    job.training_input.job_dir = "study_dir";
    job.local.working_directory = folder_.path();
    jobs::JobStore(folder_ / "jobs").create(job, {});
    const Path study = folder_ / "study_dir" / "study";
    std::filesystem::create_directories(study);
    testing::write_bytes(study / "study.json", R"({
      "hyperparameters": {"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 2, "params": [
        {"parameterName": "rate", "type": "DOUBLE", "minValue": 0.001, "maxValue": 1}]},
      "command": ["/bin/true"], "seed": 0})");
    testing::write_bytes(study / "1.json", trial_text(1, 0.5));
    testing::write_bytes(study / "2.json", trial_text(2, 0.25));
    // The columns of the hparams table, of step 0.
    EventWriter(folder_ / "study_dir").add_text("columns", "rate", 0);
  }

  std::string describe(const std::string& flag) const {
    const auto outcome = testing::run_program(
        MUSTER_PROGRAM,
        {"jobs", "describe", "tuned", "--jobs-dir", (folder_ / "jobs").string(), flag});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }

  testing::TempDir folder_;
};

TEST_F(JobsOfStudies, HaveTheTrialsOfCloudMlEngine) {
  const json output = json::parse(describe("--json"))["trainingOutput"];
  EXPECT_EQ(output["completedTrialCount"], "2");
  EXPECT_EQ(output["isHyperparameterTuningJob"], true);
  EXPECT_EQ(output["hyperparameterMetricTag"], "loss");
  ASSERT_EQ(output["trials"].size(), 2U);
  const json& best = output["trials"][0];
  EXPECT_EQ(best["trialId"], "2");
  EXPECT_EQ(best["finalMetric"]["objectiveValue"], 0.25);
  EXPECT_EQ(best["finalMetric"]["trainingStep"], "200");
  EXPECT_EQ(best["hyperparameters"]["rate"], "0.2");
  EXPECT_EQ(best["startTime"], "2026-11-15T10:19:31.500000Z");
  EXPECT_FALSE(best.contains("isTrialStoppedEarly"));
}

TEST_F(JobsOfStudies, AreSummarizedByTheirBestTrial) {
  EXPECT_THAT(describe("--summarize"),
              AllOf(HasSubstr("Trials\nTRIAL  STATE"), HasSubstr("bestTrial                2\n"),
                    HasSubstr("trainingStep             200\n"), Not(HasSubstr("  step "))));
}

}  // namespace
}  // namespace muster
