// The census example as a cluster of processes that share no disk: data, job folder and export lie
// in a store.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <regex>
#include <string>

#include "muster/testing/eventually.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/stand_in.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/reachable_store.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::RunningProgram;
using testing::TempDir;
using testing::Words;
using testing::operator+;

constexpr const char* kPerson =
    R"({"age": 39, "workclass": "Private", "education": "Bachelors", "education_num": 13, )"
    R"("marital_status": "Divorced", "occupation": "Sales", "relationship": "Unmarried", )"
    R"("race": "White", "gender": "Male", "capital_gain": 0, "capital_loss": 0, )"
    R"("hours_per_week": 40, "native_country": "United-States"})";

class CensusInStores : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!MUSTER_HAS_STORES) GTEST_SKIP() << "built without libcurl or pugixml";
    if (scheme_ != "s3" && !testing::are_tests_long()) GTEST_SKIP() << "MUSTER_LONG_TESTS=1 has it";
    muster({"records", "synth", "census", "--output", folder_ / "data", "--train", "1000", "--test",
            "200"});
    store_ = reachable_store(scheme_);
    muster({"fs", "cp", "-r", folder_ / "data", store_.root / "data"});
  }

  std::string muster(const Words& arguments) const {
    const Outcome outcome = testing::run_program(MUSTER_PROGRAM, arguments, store_.environment);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }

  /// A master, two workers and a ps, whose data and job folder lie below `root`.
  Words launch_flags(const Path& root, const Path& program) const {
    return {"launch",
            "--workers",
            "2",
            "--ps",
            "1",
            "--log-dir",
            logs_,
            "--no-training-log",
            "--",
            program,
            "--train-files",
            root / "data/adult.data.csv",
            "--eval-files",
            root / "data/adult.test.csv",
            "--job-dir",
            root / "job",
            "--train-steps",
            "30",
            "--save-checkpoints-steps",
            "5",
            "--eval-batch-size",
            "200",
            "--threads-per-replica",
            "1",
            "--seed",
            "3"};
  }

  /// Ends all of a cluster with SIGKILL when this checkpoint is there.
  void kill_at(const std::string& checkpoint) const {
    RunningProgram launch(MUSTER_PROGRAM, launch_flags(store_.root, CENSUS_PROGRAM),
                          {.environment = store_.environment});
    ASSERT_TRUE(testing::eventually([&] {
      return launch.ended() || store_.bytes_of("job/" + checkpoint + ".index");
    })) << launch.err();
    ASSERT_FALSE(launch.ended()) << launch.err();
    for (const auto& file : std::filesystem::directory_iterator(logs_)) {
      if (file.path().extension() != ".pid") continue;
      ::kill(std::stoi(testing::read_bytes(file.path())), SIGKILL);
    }
    launch.send(SIGKILL);
    launch.wait();
  }

  // The names of its objects that begin so, as paths.
  Words paths_of(const std::string& begin) const {
    Words paths;
    for (const auto& object : store_.fake->objects()) {
      const std::string& name = object.first;
      if (name.starts_with(store_.prefix + begin)) {
        paths.push_back(store_.root / name.substr(store_.prefix.size()));
      }
    }
    return paths;
  }

  // The one export below this folder.
  Path export_in(const Path& model) const {
    return model / testing::run_program(MUSTER_PROGRAM, {"fs", "ls", model}, store_.environment)
                       .out.substr(0, 10);
  }

  /// Serves census as these flags say, and asks it for a prediction.
  void expect_answer(const Words& flags) const {
    const RunningProgram server(
        MUSTER_PROGRAM,
        Words{"serve", "--address", "127.0.0.1", "--port", "auto", "--rest-api-port", "auto"} +
            flags,
        {.environment = store_.environment});
    const std::regex rest("REST API at:(127.0.0.1:[0-9]+)");
    std::smatch match;
    std::string talk;
    ASSERT_TRUE(testing::eventually([&] {
      talk = server.err();
      return std::regex_search(talk, match, rest);
    })) << talk;
    const Outcome answer = testing::run_program(
        "/usr/bin/curl", {"-sS", "--noproxy", "*", "--max-time", "60", "-d",
                          fmt::format(R"({{"instances": [{}]}})", kPerson),
                          fmt::format("http://{}/v1/models/census:predict", match[1].str())});
    EXPECT_THAT(answer.out, HasSubstr("probabilities")) << answer.err << server.err();
  }

  std::string hash_in(const Path& root) const {
    return muster({"checkpoint", "hash", root / "job"}).substr(0, 64);
  }

  const std::string scheme_ = GetParam();
  TempDir folder_;
  const Path logs_ = folder_ / "logs";
  ReachableStore store_;
};

INSTANTIATE_TEST_SUITE_P(, CensusInStores, ::testing::Values("s3", "gs", "hdfs"),
                         [](const auto& scheme) { return std::string(scheme.param); });

TEST_P(CensusInStores, AKilledClusterEndsWithTheHashOfOneOnADiskAndIsServed) {
  muster(launch_flags(folder_.path(), testing::warm_stand_in(CENSUS_PROGRAM)));
  kill_at("model.ckpt-10");
  muster(launch_flags(store_.root, testing::warm_stand_in(CENSUS_PROGRAM)));
  EXPECT_EQ(hash_in(store_.root), hash_in(folder_.path()));
  EXPECT_EQ(store_.fake->orphans(), 0U);

  expect_answer({store_.root / "job/export/census"});
}

TEST_P(CensusInStores, AQueueOfJobsInAStoreIsRefused) {
  const Outcome outcome = testing::run_program(
      MUSTER_PROGRAM, {"jobs", "list", "--jobs-dir", store_.root / "jobs"}, store_.environment);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("needs a folder on a disk of this host"),
                                 HasSubstr((store_.root / "jobs").string()),
                                 HasSubstr("--job-dir of a job may lie in a store")));
}

TEST_P(CensusInStores, EveryCommandTakesItsPaths) {
  const Path job = store_.root / "job";
  const Path model = job / "export/census";
  const auto run = [&](const char* program, const Words& arguments) {
    const Outcome outcome = testing::run_program(program, arguments, store_.environment);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  };
  testing::write_bytes(folder_ / "people.json", std::string(kPerson) + "\n");
  muster({"fs", "cp", folder_ / "people.json", store_.root / "data/"});
  run(CENSUS_PROGRAM, {"--train-files", store_.root / "data/adult.d*.csv", "--eval-files",
                       store_.root / "data/adult.t*.csv", "--job-dir", job, "--train-steps", "10"});
  run(OWN_LOOP_PROGRAM, {"--job-dir", store_.root / "own", "--steps", "10"});
  const Words events = paths_of("job/events.out.tfevents.");
  ASSERT_EQ(events.size(), 1U);

  struct Row {
    Words command{};
    std::string says{};
  };
  const Path people = store_.root / "data/people.json";
  const Path models = store_.root / "models";
  const Path jobs = folder_ / "jobs";
  const Words batch{"batch-predict",
                    "--model-dir",
                    model,
                    "--input-paths",
                    store_.root / "data/p*.json",
                    "--data-format",
                    "json",
                    "--output-path",
                    store_.root / "out"};
  for (const Row& row : {
           Row{{"fs", "ls", job}, "model.ckpt-10.index"},
           Row{{"fs", "stat", store_.root / "data/*.csv"}, "adult.test.csv"},
           Row{{"records", "verify", events.front()}, "records"},
           Row{{"checkpoint", "show", job}, "global_step"},
           Row{{"checkpoint", "hash", store_.root / "own"}, "model.ckpt-10"},
           Row{{"events", "show", job}, "loss"},
           Row{{"runs", "show", job}, "census"},
           Row{{"model", "show", "--dir", export_in(model), "--all"}, "predict"},
           Row{{"predict", "--model-dir", model, "--json-instances", people}, "PROBABILITIES"},
           Row{batch, "predictionCount: '1'"},
           // A job that has ended is not repeated.
           Row{batch, "predictionCount: '1'"},
           Row{{"fs", "cat", store_.root / "out/prediction.results-00000-of-00001"},
               "probabilities"},
           Row{{"models", "create", "census", "--models-dir", models}, ""},
           Row{{"versions", "create", "v1", "--models-dir", models, "--model", "census", "--origin",
                model},
               ""},
           Row{{"versions", "describe", "v1", "--models-dir", models, "--model", "census"},
               "deploymentUri: " + model.string()},
           Row{{"predict", "--model-dir", models / "census/1", "--json-instances", people},
               "PROBABILITIES"},
           Row{{"versions", "create", "v2", "--models-dir", models, "--model", "census", "--origin",
                model},
               ""},
           Row{{"versions", "set-default", "v2", "--models-dir", models, "--model", "census"}, ""},
           Row{{"versions", "delete", "v1", "--models-dir", models, "--model", "census"}, ""},
           Row{{"versions", "list", "--models-dir", models, "--model", "census"}, "v2"},
           Row{{"jobs", "submit", "training", "a", "--jobs-dir", jobs, "--scale-tier", "BASIC",
                "--job-dir", store_.root / "of_job", "--", OWN_LOOP_PROGRAM, "--steps", "10"},
               "jobId: a"},
           Row{{"jobs", "wait", "a", "--jobs-dir", jobs, "--timeout", "100"}, "SUCCEEDED"},
           Row{{"checkpoint", "hash", store_.root / "of_job"}, "model.ckpt-10"},
       }) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(row.command, " ")));
    EXPECT_THAT(muster(row.command), HasSubstr(row.says));
  }
  expect_answer({"--models-dir", models});
  EXPECT_EQ(store_.fake->orphans(), 0U);
}

}  // namespace
}  // namespace muster
