#include "muster/tuning/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/testing/temp_dir.h"

namespace muster::tuning {
namespace {

using muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Reports (x - 0.3)^2, as cloudml-hypertune does, and does what `before` says first.
std::vector<std::string> parabola(const std::string& before = "") {
  return {"/bin/sh", "-c",
          "for word; do case $word in --x=*) x=${word#--x=} ;; esac; done\n" + before +
              "\nawk -v x=$x 'BEGIN { printf \"{\\\"loss\\\": \\\"%.17g\\\", \\\"global_step\\\": "
              "\\\"7\\\"}\\n\", (x - 0.3) * (x - 0.3) }' > $CLOUD_ML_HP_METRIC_FILE",
          "parabola"};
}

std::string spec_of(int trials, int parallel, const std::string& more = "") {
  return R"({"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": )" +
         std::to_string(trials) + R"(, "maxParallelTrials": )" + std::to_string(parallel) + more +
         R"(, "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]})";
}

using Row = std::tuple<std::int64_t, TrialState, Values, double>;

std::vector<Row> table_of(const Study& study) {
  std::vector<Row> rows;
  for (const Trial& trial : study.trials) {
    rows.emplace_back(trial.id, trial.state, trial.values,
                      trial.final_metric ? trial.final_metric->value : -1);
  }
  return rows;
}

std::string failure_of(const StudyOptions& options) {
  try {
    run_study(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Study, FindsTheMinimumAndKeepsWhatItFound) {
  const TempDir folder;
  const Study study = run_study(
      {.hyperparameters = spec_of(12, 1), .job_dir = folder / "s", .command = parabola()});
  ASSERT_EQ(study.trials.size(), 12U);
  ASSERT_NE(study.best(), nullptr);
  EXPECT_LT(study.best()->final_metric->value, 1e-3);
  EXPECT_EQ(study.best()->final_metric->step, 7);
  EXPECT_EQ(table_of(read_study(folder / "s")), table_of(study));
}

TEST(Study, TellsATrialItsNumberAndFolder) {
  const TempDir folder;
  const Study study =
      run_study({.hyperparameters = spec_of(2, 1),
                 .job_dir = folder / "s",
                 .command = parabola("echo \"$CLOUD_ML_TRIAL_ID $TF_CONFIG $*\" > " +
                                     (folder / "told").string())});
  EXPECT_THAT(read_file(folder / "told"),
              AllOf(HasSubstr(R"(2 {"task":{"trial":"2"},"environment":"cloud"} --x=)"),
                    HasSubstr("--job-dir " + (folder / "s" / "2").string())));
}

TEST(Study, GoesOnWhereItWasKilled) {
  const TempDir folder;
  // Longer for some, so that trials end in another order than they begin.
  const auto command = parabola("sleep 0.0$(( $CLOUD_ML_TRIAL_ID % 3 * 3 ))");
  for (const int parallel : {1, 2}) {
    const StudyOptions whole{.hyperparameters = spec_of(10, parallel),
                             .job_dir = folder / ("whole" + std::to_string(parallel)),
                             .command = command};
    const auto expected = table_of(run_study(whole));
    StudyOptions killed = whole;
    killed.job_dir = folder / ("killed" + std::to_string(parallel));
    Random random(5);
    for (int i = 0; i < 6; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        try {
          run_study(killed);
        } catch (const std::exception&) {
          ::_exit(1);
        }
        ::_exit(0);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + random.below(120)));
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    EXPECT_EQ(table_of(run_study(killed)), expected) << parallel;
  }
}

TEST(Study, ResumesATrialThatWasKilled) {
  const TempDir folder;
  // Dies by a signal the first time.
  const Study study =
      run_study({.hyperparameters = spec_of(3, 1),
                 .job_dir = folder / "s",
                 .command = parabola(
                     "mark=" + folder.path().string() +
                     "/$CLOUD_ML_TRIAL_ID; if [ ! -e $mark ]; then touch $mark; kill -9 $$; fi")});
  for (const Trial& trial : study.trials) EXPECT_EQ(trial.state, TrialState::kSucceeded);
}

TEST(Study, CountsFailuresAndGoesOn) {
  const TempDir folder;
  const Study study = run_study({.hyperparameters = spec_of(6, 2),
                                 .job_dir = folder / "s",
                                 .command = parabola("[ $CLOUD_ML_TRIAL_ID != 3 ] || exit 4")});
  EXPECT_EQ(study.trials[2].state, TrialState::kFailed);
  EXPECT_THAT(study.trials[2].error_message, HasSubstr("exited with status 4"));
  EXPECT_EQ(study.trials[5].state, TrialState::kSucceeded);
}

TEST(Study, EndsWhenTooManyTrialsFail) {
  const TempDir folder;
  EXPECT_THAT(
      failure_of(
          {.hyperparameters = spec_of(20, 1), .job_dir = folder / "a", .command = {"/bin/false"}}),
      HasSubstr("3 trials failed and 0 succeeded"));
  EXPECT_THAT(failure_of({.hyperparameters = spec_of(20, 1, R"(, "maxFailedTrials": 2)"),
                          .job_dir = folder / "b",
                          .command = parabola("[ $CLOUD_ML_TRIAL_ID -lt 4 ] || exit 4")}),
              HasSubstr("2 trials failed and 3 succeeded"));
  EXPECT_THAT(
      failure_of(
          {.hyperparameters = spec_of(20, 1), .job_dir = folder / "c", .command = {"/bin/true"}}),
      HasSubstr("wrote no metric loss; what it wrote: none"));
}

TEST(Study, EndsATrialThatRunsForTooLong) {
  const TempDir folder;
  EXPECT_THAT(failure_of({.hyperparameters = spec_of(1, 1),
                          .job_dir = folder / "s",
                          .command = {"/bin/sh", "-c", "exec sleep 1000", "program"},
                          .trial_limit = std::chrono::seconds(1)}),
              HasSubstr("trial 1 ran for more than 1 s"));
}

TEST(Study, RefusesWhatIsNotItsOwn) {
  const TempDir folder;
  EXPECT_THAT(failure_of({.hyperparameters = spec_of(2, 1),
                          .job_dir = folder / "s",
                          .command = {"/bin/true", "--x=1"}}),
              HasSubstr("--x to every trial"));
  run_study({.hyperparameters = spec_of(1, 1), .job_dir = folder / "s", .command = parabola()});
  EXPECT_THAT(failure_of({.hyperparameters = spec_of(1, 1),
                          .job_dir = folder / "s",
                          .command = parabola(),
                          .seed = 3}),
              HasSubstr("another seed"));
  EXPECT_EQ(
      run_study({.hyperparameters = spec_of(2, 1), .job_dir = folder / "s", .command = parabola()})
          .trials.size(),
      2U);
  EXPECT_THROW(read_study(folder.path()), NotFound);
}

TEST(Study, KnowsTheTrialsOfAnEarlierOne) {
  const TempDir folder;
  run_study({.hyperparameters = spec_of(10, 1), .job_dir = folder / "old", .command = parabola()});
  const Study study =
      run_study({.hyperparameters = spec_of(1, 1, R"(, "resumePreviousJobId": "old")"),
                 .job_dir = folder / "new",
                 .command = parabola()});
  EXPECT_LT(study.best()->final_metric->value, 1e-2);
}

TEST(Study, StopsATrialThatIsWorseThanTheMedian) {
  const TempDir folder;
  // The first reports 1 and ends, the second reports 2 and would go on for long.
  const std::string program =
      "echo '{\"loss\": \"'$CLOUD_ML_TRIAL_ID'\", \"global_step\": \"1\"}' > "
      "$CLOUD_ML_HP_METRIC_FILE; "
      "[ $CLOUD_ML_TRIAL_ID = 1 ] || exec sleep 1000";
  const Study study =
      run_study({.hyperparameters = spec_of(2, 1, R"(, "enableTrialEarlyStopping": true)"),
                 .job_dir = folder / "s",
                 .command = {"/bin/sh", "-c", program, "program"},
                 .early_stopping_interval = std::chrono::milliseconds(10)});
  EXPECT_TRUE(study.trials[1].is_stopped_early);
  EXPECT_EQ(study.trials[1].state, TrialState::kSucceeded);
  EXPECT_EQ(study.trials[1].final_metric->value, 2);
}

}  // namespace
}  // namespace muster::tuning
