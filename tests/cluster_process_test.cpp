// The examples as clusters of processes, started by `muster launch`: evaluations, exports, and an
// end for everybody. That the weights are those of one process is in layout_hash_test.cpp.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "muster/saved_model/graph/export_folder.h"
#include "muster/testing/process.h"
#include "muster/testing/stand_in.h"
#include "muster/testing/words.h"
#include "tests/example_job.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using ::testing::SizeIs;
using testing::Words;

TEST(Cluster, AMasterEvaluatesAndExportsAndNobodyElseDoes) {
  const CensusJob example;
  const Outcome outcome =
      example.launch("job", {"--workers", "2", "--ps", "2"}, {"--save-checkpoints-steps", "20"});
  EXPECT_THAT(example.log_of("job", "master"),
              AllOf(HasSubstr("master:0 strategy: parameter server, synchronous: 3 tasks train, 2 "
                              "hold the variables (ps in the cluster)"),
                    HasSubstr("Saving dict for global step 100"), HasSubstr("accuracy = ")));
  for (const char* task : {"worker0", "worker1", "ps0", "ps1"}) {
    EXPECT_THAT(example.log_of("job", task),
                AllOf(Not(HasSubstr("Saving dict")), Not(HasSubstr("Saving checkpoints")),
                      Not(HasSubstr("accuracy = "))))
        << task;
  }
  EXPECT_THAT(graph::exports_in(example.job_dir("job") / "export/census"), SizeIs(1));
  for (const char* task : {"ps:0", "ps:1", "worker:0", "worker:1", "master:0"}) {
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("ended {} ", task)));
  }
}

TEST(Cluster, AnEvaluatorSeesTheLastCheckpointAndEnds) {
  const CensusJob example;
  example.launch("job", {"--evaluator", "--workers", "1", "--ps", "0"},
                 {"--save-checkpoints-steps", "20"});
  EXPECT_THAT(example.log_of("job", "chief"),
              AllOf(HasSubstr("left to a task of type evaluator"),
                    HasSubstr("no ps in the cluster"), Not(HasSubstr("Saving dict"))));
  EXPECT_THAT(example.log_of("job", "evaluator"),
              AllOf(HasSubstr("Saving dict for global step 100"),
                    HasSubstr("the evaluator ends: step 100")));
  EXPECT_THAT(graph::exports_in(example.job_dir("job") / "export/census"), SizeIs(1));
}

// Without --train-steps only the chief knows where the end is.
TEST(Cluster, AnEvaluatorEndsWhenTheInputDoes) {
  const CensusJob example;
  Words words = example.words("job", {"--num-epochs", "1"});
  const auto steps = std::find(words.begin(), words.end(), "--train-steps");
  words.erase(steps, steps + 2);
  const Outcome outcome = testing::run_program(
      MUSTER_PROGRAM,
      Words{"launch", "--log-dir", example.log_dir("job"), "--no-training-log", "--evaluator",
            "--workers", "2", "--ps", "1", "--", testing::warm_stand_in(CENSUS_PROGRAM)} +
          words);
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  // 1,000 people, four replicas of ten.
  EXPECT_THAT(example.log_of("job", "evaluator"),
              HasSubstr("the evaluator ends: the run has ended at step 25"));
  // All leave together: no task is missed, and no generation begins for the last save.
  EXPECT_THAT(example.log_of("job", "chief"),
              AllOf(HasSubstr("generation 1:"), Not(HasSubstr("generation 2:"))));
}

TEST(Cluster, FlagsThatDoNotGoWithItAreRefusedAtOnce) {
  const CensusJob example;
  const Words with_ps{"--chief", "--workers", "1", "--ps", "1"};
  const Words without_ps{"--chief", "--workers", "1", "--ps", "0"};
  const auto refusal = [&](const std::string& name, const Words& cluster, const Words& flags) {
    const Outcome outcome =
        testing::run_program(MUSTER_PROGRAM, example.launch_words(name, cluster, flags));
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    // The first task that sees it ends the others, which may have logged nothing by then.
    std::string logs;
    for (const auto& entry : std::filesystem::directory_iterator(example.log_dir(name))) {
      logs += testing::read_bytes(entry.path());
    }
    return logs;
  };
  EXPECT_THAT(
      refusal("async", without_ps, {"--sync=false"}),
      HasSubstr("--sync=false is for ps tasks, which hold the variables, and there are none"));
  EXPECT_THAT(refusal("bound", with_ps, {"--max-staleness", "4"}),
              HasSubstr("--max-staleness: with --sync all tasks have the values of the same step"));
  EXPECT_THAT(refusal("collective", with_ps, {"--strategy", "collective"}),
              HasSubstr("leave out the flag or the ps"));
}

}  // namespace
}  // namespace muster
