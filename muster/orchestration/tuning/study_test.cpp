#include "muster/orchestration/tuning/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/summary/event_reader.h"
#include "muster/data/summary/hparams.h"
#include "muster/orchestration/tuning/goals.h"
#include "muster/orchestration/tuning/state_checksum.h"
#include "muster/orchestration/tuning/study_control.h"
#include "muster/orchestration/tuning/study_test_internal.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::tuning {
namespace {

using muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

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

TEST(Study, SaysWhatAProgramSaidThatFailed) {
  const TempDir folder;
  const std::string said =
      failure_of({.hyperparameters = spec_of(3, 1),
                  .job_dir = folder / "s",
                  .command = {"/bin/sh", "-c",
                              "echo starts; echo 'program: --x: unknown flag' >&2; echo; "
                              "echo 'Run with --help.' >&2; exit 2",
                              "program"}});
  EXPECT_THAT(said, AllOf(HasSubstr("exited with status 2: program: --x: unknown flag; Run with "
                                    "--help.; its lines are in "),
                          ::testing::Not(HasSubstr("starts"))));
}

TEST(Study, TakesAMetricThatIsNotFiniteForAFailure) {
  const TempDir folder;
  for (const char* value : {"inf", "-inf", "nan"}) {
    const Study study =
        run_study({.hyperparameters = R"({"goal": "MAXIMIZE", "hyperparameterMetricTag": "loss",
             "maxTrials": 4, "maxParallelTrials": 1, "params": [{"parameterName": "x",
             "type": "DOUBLE", "minValue": 0, "maxValue": 1}]})",
                   .job_dir = folder / value,
                   .command = parabola(
                       "[ $CLOUD_ML_TRIAL_ID != 2 ] || { echo '{\"loss\": \"" + std::string(value) +
                       "\", \"global_step\": 3}' > $CLOUD_ML_HP_METRIC_FILE; exit 0; }")});
    EXPECT_EQ(study.trials[1].state, TrialState::kFailed) << value;
    EXPECT_THAT(study.trials[1].error_message, HasSubstr("at step 3: no value to compare"));
    ASSERT_NE(study.best(), nullptr);
    EXPECT_NE(study.best()->id, 2) << value;
  }
}

TEST(Study, RefusesATrialWhoseFileIsDamagedAndRunsItAgainWithoutTheFile) {
  const TempDir folder;
  const StudyOptions options{
      .hyperparameters = spec_of(3, 1), .job_dir = folder / "s", .command = parabola()};
  const Study study = run_study(options);
  const Path file = folder / "s" / "study" / "3.json";
  const std::string whole = read_file(file);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    testing::write_bytes(file, damaged);
    EXPECT_THROW(read_study(folder / "s"), DataLoss) << damaged;
  }
  EXPECT_THAT(failure_of(options), AllOf(HasSubstr("3.json"), HasSubstr("these run again")));
  std::filesystem::remove(file.string());
  EXPECT_EQ(table_of(run_study(options)), table_of(study));
  testing::write_bytes(file, whole.substr(0, whole.find(",\"crc32c")) + "}\n");
  EXPECT_THROW(read_study(folder / "s"), DataLoss);
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

TEST(Study, StopsWhenAnotherProcessAsksForIt) {
  const TempDir folder;
  EXPECT_THROW(request_study_stop(folder / "s"), FailedPrecondition);
  const std::vector<std::string> command =
      parabola("[ ! -e " + (folder / "wait").string() + " ] || sleep 600");
  testing::write_bytes(folder / "wait", "");
  std::string message;
  std::jthread runner([&] {
    message = testing::message_of([&] {
      run_study({.hyperparameters = spec_of(2, 1), .job_dir = folder / "s", .command = command});
    });
  });
  ASSERT_TRUE(testing::eventually([&] { return file_exists(folder / "s/study/1.json"); }));
  EXPECT_TRUE(is_study_running(folder / "s"));
  request_study_stop(folder / "s");
  runner.join();
  EXPECT_THAT(message, HasSubstr("was asked to stop"));
  EXPECT_FALSE(is_study_running(folder / "s"));
  EXPECT_FALSE(file_exists(folder / "s/study/stop"));
  std::filesystem::remove(folder / "wait");
  const StudySetup setup = read_study_setup(folder / "s");
  EXPECT_EQ(setup.command, command);
  EXPECT_EQ(setup.working_directory, std::filesystem::current_path());
  // A request that came too late is none for the next one.
  testing::write_bytes(folder / "s/study/stop", "");
  const Study study =
      run_study({.hyperparameters = spec_of(3, 1), .job_dir = folder / "s", .command = command});
  EXPECT_EQ(study.trials.size(), 3U);
}

TEST(Study, WaitsForNoPipeAndReadsNothingOutside) {
  const TempDir folder;
  run_study({.hyperparameters = spec_of(1, 1), .job_dir = folder / "s", .command = parabola()});
  ASSERT_EQ(::mkfifo((folder / "s" / "study" / "2.json").c_str(), 0600), 0);
  EXPECT_THROW(read_study(folder / "s"), InvalidArgument);
  std::filesystem::remove(folder / "s" / "study" / "2.json");
  std::filesystem::create_directory(folder / "other");
  std::filesystem::create_directory_symlink(folder / "s" / "study", folder / "other" / "study");
  EXPECT_THROW(read_study(folder / "other"), InvalidArgument);
  EXPECT_EQ(read_study(folder / "s").trials.size(), 1U);
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

// Reports loss, which is smallest at 0.3, and size, which is x.
std::vector<std::string> two_metrics() {
  return {
      "/bin/sh", "-c",
      "for word; do case $word in --x=*) x=${word#--x=} ;; esac; done\n"
      "awk -v x=$x 'BEGIN { printf \"{\\\"loss\\\": \\\"%.17g\\\", \\\"size\\\": \\\"%s\\\"}\\n\", "
      "(x - 0.3) * (x - 0.3), x }' > $CLOUD_ML_HP_METRIC_FILE",
      "two_metrics"};
}

constexpr const char* kOfX =
    R"(, "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]})";

TEST(Study, FindsTheBestWithinItsConstraints) {
  const TempDir folder;
  const Study study = run_study(
      {.hyperparameters =
           std::string(R"({"metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "maxTrials": 14,
                           "constraints": [{"metric": "size", "minValue": 0.6}])") +
           kOfX,
       .job_dir = folder / "s",
       .command = two_metrics()});
  // At the bound, 0.3 from where the loss is smallest.
  EXPECT_NEAR(study.best()->final_metric->value, 0.09, 0.02);
  EXPECT_GE(study.best()->other_metrics.at("size"), 0.6);
}

TEST(Study, SpreadsItsTrialsOverTheFrontOfTwoGoals) {
  const TempDir folder;
  const std::string goals =
      R"({"metrics": [{"metric": "loss", "goal": "MINIMIZE"}, {"metric": "size", "goal": ")";
  StudyOptions options{.hyperparameters = goals + R"(MAXIMIZE"}], "maxTrials": 20)" + kOfX,
                       .job_dir = folder / "s",
                       .command = two_metrics()};
  const Study study = run_study(options);
  // The front is all of 0.3 to 1.
  int between = 0;
  for (const Trial* trial : pareto_front(study.spec, study.trials)) {
    const double x = trial->other_metrics.at("size");
    EXPECT_GT(x, 0.25);
    between += x > 0.4 && x < 0.9 ? 1 : 0;
  }
  EXPECT_GE(between, 4);
  options.hyperparameters =
      std::string(R"({"metrics": [{"metric": "loss"}, {"metric": "none"}])") + kOfX;
  options.job_dir = folder / "t";
  EXPECT_THAT(failure_of(options), HasSubstr("wrote no metric none"));
}

TEST(Study, StopsNoTrialThatIsAtItsLastStep) {
  const TempDir folder;
  // All steps are done; both take a while to end, the second after it was seen to be worse.
  const std::string program =
      "echo '{\"loss\": \"'$CLOUD_ML_TRIAL_ID'\", \"global_step\": \"5\"}' > "
      "$CLOUD_ML_HP_METRIC_FILE; sleep 0.3; echo whole > $CLOUD_ML_HP_METRIC_FILE.end";
  const Study study =
      run_study({.hyperparameters = spec_of(2, 1, R"(, "enableTrialEarlyStopping": true)"),
                 .job_dir = folder / "s",
                 .command = {"/bin/sh", "-c", program, "program", "--train-steps", "5"},
                 .early_stopping_interval = std::chrono::milliseconds(10)});
  EXPECT_FALSE(study.trials[1].is_stopped_early);
  EXPECT_EQ(study.trials[1].state, TrialState::kSucceeded);
  EXPECT_EQ(read_file(folder / "s" / "study" / "2.metrics.end"), "whole\n");
}

TEST(Study, TellsATrialWhetherItWillPause) {
  const TempDir folder;
  std::vector<std::string> command = trainer();
  command[2] = "echo $MUSTER_TRIAL_PAUSES >> " + (folder / "told").string() + "\n" + command[2];
  run_study({.hyperparameters = spec_of(1, 1, kAsha), .job_dir = folder / "s", .command = command});
  // Up to 1, 3 and 9 steps.
  EXPECT_EQ(read_file(folder / "told"), "1\n1\n\n");
}

TEST(Study, PausesTrialsAndLetsTheBestGoOn) {
  const TempDir folder;
  for (const std::string rule : {"ASHA", "HYPERBAND"}) {
    const Study study =
        run_study({.hyperparameters = spec_of(
                       12, 2, R"(, "trialStopping": {"rule": ")" + rule + R"(", "minSteps": 1})"),
                   .job_dir = folder / rule,
                   .command = trainer()});
    ASSERT_EQ(study.trials.size(), 12U);
    const Trial& best = *study.best();
    EXPECT_FALSE(best.is_stopped_early);
    EXPECT_EQ(best.final_metric->step, 9);
    std::size_t whole = 0;
    for (const Trial& trial : study.trials) {
      EXPECT_EQ(trial.state, TrialState::kSucceeded);
      whole += trial.is_stopped_early ? 0 : 1;
      EXPECT_EQ(trial.final_metric->step, trial.rungs.back().max_steps);
    }
    EXPECT_LT(whole, 5U) << rule;
    EXPECT_EQ(table_of(read_study(folder / rule)), table_of(study));
  }
  EXPECT_THAT(read_file(folder / "ASHA" / "1" / "stretches"), ::testing::StartsWith("0-1\n"));
}

TEST(Study, GoesOnFromThePauseWithWhatATrialTrainedThroughHas) {
  const TempDir folder;
  const std::string grid =
      R"({"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 9, "algorithm":
          "GRID_SEARCH", "params": [{"parameterName": "x", "type": "DISCRETE",
          "discreteValues": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]}])";
  const Study halved = run_study(
      {.hyperparameters = grid + kAsha + "}", .job_dir = folder / "halved", .command = trainer()});
  const Trial& best = *halved.best();
  ASSERT_EQ(best.rungs.size(), 3U);
  EXPECT_EQ(read_file(folder / "halved" / std::to_string(best.id) / "stretches"),
            "0-1\n1-3\n3-9\n");
  // In the same order, all to the end.
  const Study whole =
      run_study({.hyperparameters = grid + "}", .job_dir = folder / "whole", .command = trainer()});
  const Trial& through = whole.trials[static_cast<std::size_t>(best.id - 1)];
  EXPECT_EQ(through.values, best.values);
  EXPECT_EQ(through.final_metric, best.final_metric);
}

TEST(Study, TrainsAPopulationInRoundsFromCopiedCheckpoints) {
  const TempDir folder;
  const auto run = [&](const std::string& name, int parallel) {
    return run_study({.hyperparameters = spec_of(12, parallel, kPopulation),
                      .job_dir = folder / name,
                      .command = trainer()});
  };
  const Study study = run("one", 1);
  ASSERT_EQ(study.trials.size(), 12U);
  int copied = 0;
  for (const Trial& trial : study.trials) {
    const std::int64_t round = (trial.id - 1) / 4;
    EXPECT_EQ(trial.final_metric->step, 3 * (round + 1));
    EXPECT_EQ(trial.parent.has_value(), round > 0);
    EXPECT_EQ(read_file(folder / "one" / std::to_string(trial.id) / "stretches"),
              std::string("0-3\n3-6\n6-9\n").substr(0, static_cast<std::size_t>(4 * (round + 1))));
    if (!trial.parent || *trial.parent == trial.id - 4) continue;
    ++copied;
    EXPECT_NE(trial.values, study.trials[static_cast<std::size_t>(*trial.parent - 1)].values);
  }
  EXPECT_EQ(copied, 2) << "the worst of four, in the second round and in the third";
  EXPECT_EQ(table_of(read_study(folder / "one")), table_of(study));
  EXPECT_EQ(table_of(run("three", 3)), table_of(study));
  EXPECT_THAT(failure_of({.hyperparameters = spec_of(16, 1, kPopulation),
                          .job_dir = folder / "one",
                          .command = trainer()}),
              HasSubstr("other hyperparameters"));
}

TEST(Study, ReplacesAMemberOfThePopulationThatFailed) {
  const TempDir folder;
  std::vector<std::string> command = trainer();
  command[2] = "[ $CLOUD_ML_TRIAL_ID != 3 ] || exit 4\n" + command[2];
  const Study study = run_study(
      {.hyperparameters = spec_of(8, 2, kPopulation), .job_dir = folder / "s", .command = command});
  EXPECT_EQ(study.trials[2].state, TrialState::kFailed);
  EXPECT_NE(study.trials[6].parent, 3);
  EXPECT_EQ(study.trials[6].state, TrialState::kSucceeded);
}

TEST(Study, GoesOnFromATrialThatDiffersInItsStepsAlone) {
  const TempDir folder;
  const std::string grid =
      R"({"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 6, "algorithm":
          "GRID_SEARCH", "params": [{"parameterName": "x", "type": "DISCRETE",
          "discreteValues": [0.1, 0.2]}, {"parameterName": "train-steps", "type": "INTEGER",
          "minValue": 4, "maxValue": 6}])";
  const std::vector<std::string> command = trainer_without_steps();
  const Study apart =
      run_study({.hyperparameters = grid + "}", .job_dir = folder / "apart", .command = command});
  const Study shared = run_study({.hyperparameters = grid + R"(, "stepsParameter": "train-steps"})",
                                  .job_dir = folder / "shared",
                                  .command = command});
  ASSERT_EQ(shared.trials.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(shared.trials[i].values, apart.trials[i].values);
    EXPECT_EQ(shared.trials[i].final_metric, apart.trials[i].final_metric);
    EXPECT_FALSE(apart.trials[i].parent.has_value());
  }
  EXPECT_FALSE(shared.trials[3].parent.has_value()) << "its x is another";
  EXPECT_EQ(shared.trials[5].parent, 5);
  EXPECT_EQ(read_file(folder / "shared" / "6" / "stretches"), "0-4\n4-5\n5-6\n");
}

TEST(Study, TakesNoMetricOfTheTrialItWentOnFrom) {
  const TempDir folder;
  // The metric file names no step after the parent's.
  std::vector<std::string> command = trainer();
  command[2] = "real=$CLOUD_ML_HP_METRIC_FILE\n" + command[2] +
               "\n[ $CLOUD_ML_TRIAL_ID -le 4 ] || sed -i 's/.global_step.: .[0-9]*./"
               "\"global_step\": \"3\"/' $real";
  const Study study = run_study(
      {.hyperparameters = spec_of(8, 2, kPopulation), .job_dir = folder / "s", .command = command});
  EXPECT_EQ(study.trials[4].state, TrialState::kFailed);
  EXPECT_THAT(study.trials[4].error_message, HasSubstr("wrote no metric loss behind step"));
}

TEST(Study, NeedsAnAllocationOfSlurmForJobSteps) {
  const TempDir folder;
  StudyOptions options{.hyperparameters = spec_of(2, 1),
                       .job_dir = folder / "s",
                       .command = parabola(),
                       .as_job_steps = true};
  EXPECT_THAT(failure_of(options), HasSubstr("SLURM_JOB_ID is not set: start the study with"));
  options.is_warm = true;
  EXPECT_THAT(failure_of(options), HasSubstr("take one of the two"));
}

TEST(Study, NeedsTheStepsOfAWholeTrialToPauseOne) {
  const TempDir folder;
  EXPECT_THAT(failure_of({.hyperparameters = spec_of(2, 1, kAsha),
                          .job_dir = folder / "s",
                          .command = parabola()}),
              AllOf(HasSubstr("needs --train-steps among"), HasSubstr("stepsFlag")));
}

// All values with this plugin in the event files of a folder, by tag.
std::map<std::string, SummaryValue> hparams_in(const Path& folder) {
  std::map<std::string, SummaryValue> found;
  EventReader reader(folder);
  while (const auto event = reader.next()) {
    const auto* const summary = std::get_if<Summary>(&event->what);
    if (summary == nullptr) continue;
    for (const SummaryValue& value : *summary) found[value.tag] = value;
  }
  return found;
}

TEST(Study, RefusesATrialOfAnotherNumberOrAnImpossibleTime) {
  const TempDir folder;
  const Path study = folder / "s" / "study";
  std::filesystem::create_directories(study);
  testing::write_bytes(study / "study.json", R"({"hyperparameters": )" + spec_of(2, 1) +
                                                 R"(, "command": ["/bin/true"], "seed": 0})");
  const auto message_for = [&](const Trial& trial) {
    testing::write_bytes(study / "1.json", with_checksum(to_json(trial)));
    return testing::message_of([&] { read_study(folder / "s"); });
  };
  Trial trial{.id = 1, .state = TrialState::kFailed, .values = {{"x", "0.5"}}};
  trial.start_time = 1.8e9;
  trial.end_time = 9e9;
  EXPECT_EQ(message_for(trial), "nothing was thrown");
  trial.id = 7;
  EXPECT_THAT(message_for(trial), AllOf(HasSubstr("1.json"), HasSubstr("it is of trial 7")));
  trial.id = 1;
  for (const double time : {1e300, 9.1e9, -1.0}) {
    trial.start_time = time;
    EXPECT_THAT(message_for(trial), AllOf(HasSubstr("1.json"), HasSubstr("startTime is no time")));
  }
  trial.start_time = 0;
  trial.end_time = 1e300;
  EXPECT_THAT(message_for(trial), HasSubstr("endTime is no time"));
}

TEST(Study, ShowsItsTrialsInTensorBoardsHparams) {
  const TempDir folder;
  const Study study = run_study({.hyperparameters = spec_of(2, 1),
                                 .job_dir = folder / "s",
                                 .command = parabola("[ $CLOUD_ML_TRIAL_ID != 2 ] || exit 4")});
  const auto root = hparams_in(folder / "s");
  EXPECT_EQ(root.at("_hparams_/experiment").plugin, "hparams");
  EXPECT_THAT(root.at("_hparams_/experiment").plugin_content,
              AllOf(HasSubstr("_hptuning_/objective"), HasSubstr("loss")));
  for (const Trial& trial : study.trials) {
    const auto values = hparams_in(folder / "s" / std::to_string(trial.id));
    const std::vector<HParam> expected{{"x", std::stod(trial.values.at("x"))}};
    EXPECT_EQ(values.at("_hparams_/session_start_info").plugin_content,
              hparams_session_start(expected, "", trial.start_time).plugin_content);
    EXPECT_EQ(values.at("_hparams_/session_end_info").plugin_content,
              hparams_session_end(trial.id == 1, trial.end_time).plugin_content);
    EXPECT_EQ(values.contains("_hptuning_/objective"), trial.id == 1);
    EXPECT_EQ(trial.other_metrics.size(), 0U) << "its own scalar is no metric of the program";
  }
}

}  // namespace
}  // namespace muster::tuning
