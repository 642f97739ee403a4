// Tasks of a cluster whose ps do not wait for all: they apply every push as it comes, or make steps
// without the last replicas. What is counted, what is bounded, who may be lost, and that it learns
// as much.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "muster/data/checkpoint/checkpoint.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/stand_in.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/example_job.h"
#include "tests/task_cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using testing::Outcome;
using testing::TempDir;
using testing::Words;
using testing::operator+;

/// Tasks that say soon what they wait for.
class Cluster : public TaskCluster {
 public:
  Cluster(std::size_t workers, std::size_t servers, Words flags)
      : TaskCluster(workers, servers, std::move(flags),
                    {.starts = false, .environment = {"MUSTER_STALL_SECONDS=1"}}) {}
};

Words async(const Words& flags) { return Words{"--sync=false"} + flags; }

struct Staleness {
  double mean = -1;
  std::int64_t max = -1;
  std::int64_t updates = -1;
};

// Staleness over the whole run, as the chief or a ps logs it at the end.
Staleness staleness_in(const std::string& log) {
  static const std::regex line(R"(staleness mean=([0-9.]+) max=([0-9]+) of ([0-9]+) updates)");
  std::smatch found;
  EXPECT_TRUE(std::regex_search(log, found, line)) << log;
  if (found.empty()) return {};
  return {std::stod(found[1]), std::stoll(found[2]), std::stoll(found[3])};
}

TEST(Async, EveryPushIsAStepOnEveryServerAndItsStalenessIsCounted) {
  Cluster cluster(3, 2, async({"--steps", "150", "--replicas", "4", "--step-ms", "2"}));
  cluster.start_all();
  const auto logs = cluster.wait_all();
  EXPECT_THAT(logs[0], HasSubstr("staleness: mean="));
  const Staleness chief = staleness_in(logs[0]);
  // Others push once more before they hear of the last step.
  EXPECT_THAT(chief.updates, AllOf(Ge(150), Le(153)));
  EXPECT_EQ(cluster.saved_step(), chief.updates);
  // Four tasks take turns: three updates of others between two of its own.
  EXPECT_THAT(chief.mean, AllOf(Ge(1.0), Le(6.0)));
  for (const std::size_t server : {4U, 5U}) {
    const Staleness counted = staleness_in(logs[server]);
    EXPECT_THAT(counted.updates, AllOf(Ge(150), Le(153)));
    EXPECT_GE(counted.max, 3);
  }
}

TEST(Async, NoValuesAreOlderThanTheBound) {
  Cluster cluster(3, 2, async({"--steps", "150", "--replicas", "4", "--max-staleness", "4"}));
  cluster.start_all();
  const auto logs = cluster.wait_all();
  const Staleness bounded = staleness_in(logs[4]);
  EXPECT_THAT(bounded.updates, AllOf(Ge(150), Le(153)));
  EXPECT_LE(bounded.max, 4);
}

TEST(Async, ABoundThatCannotBeKeptIsRaisedAndSaidSo) {
  Cluster cluster(2, 1, async({"--steps", "50", "--replicas", "3", "--max-staleness", "1"}));
  cluster.start_all();
  const auto logs = cluster.wait_all();
  EXPECT_THAT(logs[3], HasSubstr("max_staleness=1 cannot be kept by 3 tasks that begin together: "
                                 "the bound is 2 updates"));
  EXPECT_LE(staleness_in(logs[3]).max, 2);
}

TEST(Async, OthersWaitForATaskThatIsTooFarBehindAndSayForWhom) {
  Cluster cluster(2, 1,
                  async({"--steps", "400", "--replicas", "3", "--step-ms", "2", "--save-steps", "1",
                         "--max-staleness", "5", "--peer-timeout-ms", "60000"}));
  cluster.start_all();
  cluster.wait_for_step(20);
  cluster.kill(2, SIGSTOP);
  // Long enough for a report of the stall; hundreds of steps would fit into it.
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const std::int64_t step = cluster.saved_step();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LE(cluster.saved_step(), step);
  cluster.kill(2, SIGCONT);
  const auto logs = cluster.wait_all();
  EXPECT_THAT(logs[3], AllOf(HasSubstr("for worker:1: its gradients"),
                             HasSubstr("others wait for it by max_staleness=5")));
  EXPECT_LE(staleness_in(logs[3]).max, 5);
}

TEST(Async, ATaskThatPushesNothingForLongIsWaitedForNoLongerAndItsOldGradientsAreDropped) {
  Cluster cluster(
      1, 2,
      async({"--steps", "900", "--replicas", "2", "--step-ms", "5", "--save-steps", "10",
             "--max-staleness", "3", "--peer-timeout-ms", "60000", "--join-timeout-ms", "5000"}));
  cluster.start_all();
  cluster.wait_for_step(20);
  cluster.kill(1, SIGSTOP);
  const std::int64_t step = cluster.saved_step();
  cluster.wait_for_step(step + 100);
  cluster.kill(1, SIGCONT);
  const auto logs = cluster.wait_all();
  EXPECT_THAT(logs[2], AllOf(HasSubstr("worker:0 has not pushed for 5 s"),
                             HasSubstr("the gradients of worker:0 are dropped")));
  EXPECT_THAT(logs[0], HasSubstr("1 pushes were too old and dropped"));
  const Staleness first = staleness_in(logs[2]);
  EXPECT_LE(first.max, 3);
  // A push that the first server drops is applied by no other.
  EXPECT_LE(staleness_in(logs[3]).updates, first.updates);
}

TEST(Async, GoesOnWithoutAWorkerAndTakesItBack) {
  Cluster cluster(
      2, 2, async({"--steps", "400", "--replicas", "4", "--save-steps", "10", "--step-ms", "10"}));
  cluster.start_all();
  cluster.wait_for_step(20);
  cluster.kill(1, SIGKILL);
  EXPECT_EQ(cluster.wait(1).status, 128 + SIGKILL);
  cluster.wait_for_step(cluster.saved_step() + 40);
  cluster.start(1);
  const std::string log = cluster.wait_for_chief_and_end_the_rest();
  EXPECT_THAT(log, AllOf(HasSubstr("worker:0 is gone"),
                         HasSubstr("chief:0 [0, 2), worker:1 [2, 4), ps:0, ps:1"),
                         HasSubstr("going on from step"), Not(HasSubstr("all go back"))));
  EXPECT_GE(cluster.saved_step(), 400);
}

TEST(Async, ARestartedChiefTakesWhatTheServersHave) {
  Cluster cluster(
      1, 2, async({"--steps", "300", "--replicas", "2", "--save-steps", "50", "--step-ms", "10"}));
  cluster.start_all();
  cluster.wait_for_step(50);
  cluster.kill(0, SIGKILL);
  EXPECT_EQ(cluster.wait(0).status, 128 + SIGKILL);
  cluster.start(0);
  const auto logs = cluster.wait_all();
  EXPECT_THAT(logs[0], AllOf(HasSubstr("going on from step"), Not(HasSubstr("all go back"))));
  EXPECT_GE(cluster.saved_step(), 300);
}

TEST(Async, AfterTheLossOfAServerAllGoBackToTheLastCheckpoint) {
  Cluster cluster(
      1, 2, async({"--steps", "200", "--replicas", "2", "--save-steps", "10", "--step-ms", "10"}));
  cluster.start_all();
  cluster.wait_for_step(40);
  cluster.kill(3, SIGKILL);
  EXPECT_EQ(cluster.wait(3).status, 128 + SIGKILL);
  cluster.start(3);
  const auto logs = cluster.wait_all();
  EXPECT_THAT(logs[0], HasSubstr("all go back to the last checkpoint"));
  EXPECT_GE(cluster.saved_step(), 200);
}

TEST(Async, EndsTogetherWhenUnevenInputsEnd) {
  // 34, 20 and 34 examples: 5, 3 and 5 batches, each a step.
  Cluster cluster(2, 2, async({"--steps", "1000", "--replicas", "3", "--examples", "102"}));
  cluster.start_all();
  const auto logs = cluster.wait_all();
  EXPECT_EQ(staleness_in(logs[3]).updates, 13);
  EXPECT_EQ(cluster.saved_step(), 13);
  EXPECT_THAT(logs[1], HasSubstr("the input ended"));
}

TEST(Async, AChiefWhoseInputIsOverGoesOnSavingWhatOthersDo) {
  // Replicas 0 and 1 run in the chief, replica 2 in a slower worker: 25 steps each.
  Cluster cluster(
      1, 1,
      async({"--steps", "1000", "--replicas", "3", "--examples", "600", "--save-steps", "5"}));
  cluster.start(0);
  cluster.start(1, {}, {"--step-ms", "50"});
  cluster.start(2);
  const auto logs = cluster.wait_all();
  EXPECT_EQ(staleness_in(logs[2]).updates, 50);
  EXPECT_EQ(cluster.saved_step(), 50);
  // The chief's own input is over after 25 steps of each task.
  EXPECT_THAT(logs[0],
              AllOf(ContainsRegex("saved checkpoint step=4[0-9] "), HasSubstr("the input ended")));
}

TEST(Async, ABatchThatIsNotFiniteIsSkippedByItsTaskAlone) {
  Cluster cluster(1, 2, async({"--steps", "100", "--replicas", "2", "--nan-at", "33"}));
  cluster.start_all();
  const auto logs = cluster.wait_all();
  const std::string both = logs[0] + logs[1];
  EXPECT_THAT(
      both, AllOf(HasSubstr("is not finite: its batch is skipped"), Not(HasSubstr("loss = nan"))));
  // Every update was made of something.
  EXPECT_THAT(staleness_in(logs[2]).updates, AllOf(Ge(100), Le(101)));
}

TEST(Async, IsResumedFromItsCheckpoint) {
  Cluster cluster(1, 2, async({"--replicas", "2"}));
  for (const std::string steps : {"60", "120"}) {
    for (std::size_t task = 0; task < 4; ++task) cluster.start(task, {}, {"--steps", steps});
    const auto logs = cluster.wait_all();
    EXPECT_GE(cluster.saved_step(), std::stoll(steps));
    if (steps == "120") {
      EXPECT_THAT(logs[0], HasSubstr("Restoring parameters"));
      EXPECT_LE(staleness_in(logs[2]).updates, 62);
    }
  }
}

TEST(Async, ATaskThatWouldWaitForTheOthersEachStepIsRefused) {
  Cluster cluster(1, 1, async({"--steps", "20", "--replicas", "2", "--join-timeout-ms", "8000"}));
  cluster.start(1, {}, {"--sync=true"});
  cluster.start(2);
  cluster.start(0);
  const Outcome worker = cluster.wait(1);
  EXPECT_EQ(worker.status, 1) << worker.err;
  EXPECT_THAT(worker.err, HasSubstr("asynchronous updates"));
  EXPECT_EQ(cluster.wait(0).status, 0);
  EXPECT_EQ(cluster.wait(2).status, 0);
}

struct Backups {
  std::int64_t steps = -1;
  std::int64_t late = -1;
};

Backups backups_in(const std::string& log) {
  static const std::regex line(
      R"(([0-9]+) steps were made without some replicas, ([0-9]+) pushes came too late)");
  std::smatch found;
  EXPECT_TRUE(std::regex_search(log, found, line)) << log;
  if (found.empty()) return {};
  return {std::stoll(found[1]), std::stoll(found[2])};
}

TEST(Backups, StepsGoOnWhileAWorkerIsStoppedAndItsLateGradientsAreCounted) {
  Cluster cluster(2, 2,
                  {"--steps", "400", "--replicas", "3", "--step-ms", "5", "--save-steps", "10",
                   "--backup-replicas", "1", "--peer-timeout-ms", "60000"});
  cluster.start_all();
  cluster.wait_for_step(20);
  cluster.kill(2, SIGSTOP);
  cluster.wait_for_step(cluster.saved_step() + 100);
  cluster.kill(2, SIGCONT);
  const auto logs = cluster.wait_all();
  EXPECT_EQ(cluster.saved_step(), 400);
  EXPECT_THAT(logs[3], HasSubstr("came too late for their step and are dropped"));
  const Backups counted = backups_in(logs[3]);
  EXPECT_GE(counted.steps, 90);
  EXPECT_GE(counted.late, 1);
  // All servers make a step of the same gradients.
  EXPECT_EQ(backups_in(logs[4]).steps, counted.steps);
  EXPECT_EQ(backups_in(logs[4]).late, counted.late);
}

TEST(Backups, EndTogetherWhenUnevenInputsEnd) {
  Cluster cluster(
      2, 2, {"--steps", "1000", "--replicas", "3", "--examples", "102", "--backup-replicas", "1"});
  cluster.start_all();
  const auto logs = cluster.wait_all();
  EXPECT_THAT(logs[0], HasSubstr("the input ended"));
  // Five batches of each that has so many, together or in turns.
  EXPECT_THAT(cluster.saved_step(), AllOf(Ge(5), Le(13)));
}

TEST(Backups, GoOnWithoutAWorkerAndTakeItBack) {
  Cluster cluster(2, 2,
                  {"--steps", "300", "--replicas", "3", "--save-steps", "10", "--step-ms", "10",
                   "--backup-replicas", "1"});
  cluster.start_all();
  cluster.wait_for_step(20);
  cluster.kill(1, SIGKILL);
  EXPECT_EQ(cluster.wait(1).status, 128 + SIGKILL);
  cluster.wait_for_step(cluster.saved_step() + 30);
  cluster.start(1);
  EXPECT_THAT(cluster.wait_for_chief_and_end_the_rest(), HasSubstr("worker:0 is gone"));
  EXPECT_EQ(cluster.saved_step(), 300);
}

TEST(Async, ExamplesTrainWithABoundEvaluateAndExport) {
  const MnistJob example(3);
  example.launch("job", {"--workers", "2", "--ps", "2"}, {"--sync=false", "--max-staleness", "3"},
                 12);
  EXPECT_THAT(
      example.log_of("job", "master"),
      AllOf(HasSubstr("parameter server, asynchronous: 3 tasks train, 2 hold the variables, "
                      "max_staleness=3"),
            HasSubstr("Saving dict for global step 1"), HasSubstr("accuracy = "),
            HasSubstr("exported SavedModel")));
  EXPECT_LE(staleness_in(example.log_of("job", "ps0")).max, 3);
  EXPECT_GE(checkpoint_step(*latest_checkpoint(example.job_dir("job"))).value_or(0), 12);
}

// The value that a log or an output has as "name = value", at its last place.
double last_metric(const std::string& text, const std::string& name) {
  const auto at = text.rfind(name + " = ");
  EXPECT_NE(at, std::string::npos) << text;
  return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 3));
}

TEST(Async, ReachesTheAucOfASynchronousRunOnCensus) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const TempDir folder;
  constexpr std::int64_t kTasks = 5;
  const std::int64_t batches = testing::are_tests_long() ? 2000 : 1000;
  const auto flags = [&](const std::string& name, std::int64_t steps) {
    return Words{"--train-files",
                 data / "census/adult.data.csv",
                 "--eval-files",
                 data / "census/adult.test.csv",
                 "--job-dir",
                 folder / name,
                 "--train-steps",
                 std::to_string(steps),
                 "--numbers",
                 "scaled",
                 "--replicas",
                 std::to_string(kTasks),
                 "--threads-per-replica",
                 "1",
                 "--eval-batch-size",
                 "1000"};
  };
  // The same people in both: a synchronous step takes a batch of each replica. Its weights are
  // those of one process.
  const Outcome sync = testing::run_program(CENSUS_PROGRAM, flags("sync", batches / kTasks));
  ASSERT_EQ(sync.status, 0) << sync.err;
  const Outcome async = testing::run_program(
      MUSTER_PROGRAM, Words{"launch", "--workers", "4", "--ps", "2", "--log-dir", folder / "logs",
                            "--no-training-log", "--", testing::warm_stand_in(CENSUS_PROGRAM)} +
                          flags("async", batches) + Words{"--sync=false"});
  ASSERT_EQ(async.status, 0) << async.err << async.out;
  // Everybody ends by itself, within the ten seconds that the launcher gives.
  EXPECT_THAT(async.err, AllOf(Not(HasSubstr("asking ")), Not(HasSubstr(" failed "))));
  const std::string master = testing::read_bytes(folder / "logs" / "master.log");
  EXPECT_THAT(master, HasSubstr("parameter server, asynchronous: 5 tasks train, 2 hold the "
                                "variables; the weights depend on who was faster"));
  const double sync_auc = last_metric(sync.out, "auc");
  const double async_auc = last_metric(master, "auc");
  EXPECT_GT(sync_auc, 0.88);
  EXPECT_GT(async_auc, sync_auc - 0.005);
  const Staleness counted = staleness_in(master);
  RecordProperty("sync_auc", fmt::format("{:.4f}", sync_auc));
  RecordProperty("async_auc", fmt::format("{:.4f}", async_auc));
  fmt::print("auc: sync {:.4f}, async {:.4f}; staleness mean {:.2f} max {}\n", sync_auc, async_auc,
             counted.mean, counted.max);
}

}  // namespace
}  // namespace muster
