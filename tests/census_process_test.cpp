// The census example as a process: every model, files as they come, killed, laid out differently.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "muster/data/checkpoint/checkpoint.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/eventually.h"
#include "muster/testing/fake_gcs.h"
#include "muster/testing/fake_s3.h"
#include "muster/testing/fake_webhdfs.h"
#include "muster/testing/process.h"
#include "muster/testing/raw_tcp.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/webhdfs_emulator.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::read_bytes;
using testing::RunningProgram;
using testing::TempDir;
using testing::Words;
using testing::write_bytes;
using testing::operator+;

Words lines_of(const Path& file) {
  std::istringstream text(read_bytes(file));
  Words lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

void write_lines(const Path& file, const Words& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  write_bytes(file, text);
}

// The value that the program printed as "name = value".
double metric(const Outcome& outcome, const std::string& name) {
  const auto at = ("\n" + outcome.out).find("\n" + name + " = ");
  EXPECT_NE(at, std::string::npos) << outcome.out << outcome.err;
  if (at == std::string::npos) return -1;
  return std::stod(outcome.out.substr(at + name.size() + 3));
}

std::string tool(const Words& arguments) {
  const Outcome outcome = testing::run_program(MUSTER_PROGRAM, arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return outcome.out;
}

std::string hash_of(const Path& job_dir) {
  return tool({"checkpoint", "hash", job_dir}).substr(0, 64);
}

Outcome run_to_the_end(const Words& arguments) {
  Outcome outcome = testing::run_program(CENSUS_PROGRAM, arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return outcome;
}

class Census : public ::testing::Test {
 protected:
  void SetUp() override {
    tool({"records", "synth", "census", "--output", folder_.path(), "--train", "2000", "--test",
          "700"});
  }

  Words flags(const Path& job_dir, std::int64_t steps) const {
    return flags(folder_ / "adult.data.csv", folder_ / "adult.test.csv", job_dir, steps);
  }
  static Words flags(const Path& train, const Path& eval, const Path& job_dir, std::int64_t steps) {
    return {"--train-files",
            train,
            "--eval-files",
            eval,
            "--job-dir",
            job_dir,
            "--train-steps",
            std::to_string(steps),
            "--threads-per-replica",
            "1",
            "--eval-batch-size",
            "500",
            "--seed",
            "3"};
  }

  TempDir folder_;
};

TEST_F(Census, EvaluatesAndPredictsWithoutTraining) {
  const Path job = folder_ / "job";
  const auto trained = run_to_the_end(flags(job, 40) + Words{"--model", "wide"});
  const Words later = {"--job-dir", job, "--model", "wide"};
  const auto evaluated =
      run_to_the_end(later + Words{"--eval-files", folder_ / "adult.test.csv", "--evaluate-only",
                                   "--eval-batch-size", "500", "--threads-per-replica", "1"});
  EXPECT_EQ(metric(evaluated, "auc"), metric(trained, "auc"));
  EXPECT_EQ(metric(evaluated, "global_step"), 40);

  Words people = lines_of(folder_ / "adult.test.csv");
  people.resize(3);
  people[1].erase(people[1].rfind(',') + 1);  // The income of this one is missing.
  write_lines(folder_ / "people.csv", people);
  const auto predicted = run_to_the_end(later + Words{"--predict-files", folder_ / "people.csv"});
  write_bytes(folder_ / "predicted", predicted.out);
  const Words lines = lines_of(folder_ / "predicted");
  ASSERT_EQ(lines.size(), 3U) << predicted.out;
  EXPECT_THAT(lines[1], ::testing::MatchesRegex(
                            R"(\{"income_bracket": "(<=|>)50K", "probability": [01].*\})"));
}

// Where OpenBLAS or libgomp want to be told something, a run begins anew: libraries are loaded
// twice.
TEST_F(Census, LoadsItsLibrariesOnceForHelp) {
  const Outcome help = testing::run_program(CENSUS_PROGRAM, {"--help"}, {"LD_DEBUG=statistics"});
  EXPECT_EQ(help.status, 0) << help.err;
  EXPECT_THAT(help.out, HasSubstr("--train-files"));
  const std::string load = "total startup time in dynamic loader";
  const auto first = help.err.find(load);
  ASSERT_NE(first, std::string::npos) << "the C library told no statistics: " << help.err;
  EXPECT_EQ(help.err.find(load, first + 1), std::string::npos) << help.err;
}

TEST_F(Census, RefusesWhatItDoesNotKnow) {
  const auto misused = [&](const Words& more) {
    const Outcome outcome = testing::run_program(CENSUS_PROGRAM, flags(folder_ / "job", 1) + more);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(misused({"--trian-steps", "100"}),
              HasSubstr("unknown flag --trian-steps of census; did you mean --train-steps?"));
  EXPECT_THAT(misused({"--verbosity", "LOUD"}), HasSubstr("--verbosity: "));
  EXPECT_THAT(misused({"--eval-steps", "abc"}),
              HasSubstr("--eval-steps must be a number of 0 or more: abc"));
  EXPECT_THAT(misused({"--train-batch-size", "0"}),
              HasSubstr("--train-batch-size must be a number above 0: 0"));
  EXPECT_THAT(misused({"--synthetic", folder_ / "made"}),
              HasSubstr("--synthetic makes the files that are trained on"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "made"));
  // torch.distributed.launch adds --local_rank to every program.
  const Outcome launched = testing::run_program(
      CENSUS_PROGRAM, {"--local_rank=0", "--job-dir", folder_ / "job"}, {"RANK=0"});
  EXPECT_THAT(launched.err, HasSubstr("unknown argument: --local_rank=0"));
  EXPECT_THAT(launched.err, HasSubstr("--train-files is required"));
}

struct Learning {
  const char* model;
  Words flags;
  double least_auc;
};

class CensusModel : public Census, public ::testing::WithParamInterface<Learning> {};

TEST_P(CensusModel, LearnsWhatCanBeKnown) {
  const auto outcome = run_to_the_end(flags(folder_ / "job", 150) +
                                      Words{"--model", GetParam().model} + GetParam().flags);
  EXPECT_GT(metric(outcome, "auc"), GetParam().least_auc);
  EXPECT_GT(metric(outcome, "accuracy"), metric(outcome, "accuracy_baseline"));
}

INSTANTIATE_TEST_SUITE_P(
    Each, CensusModel,
    ::testing::Values(
        Learning{"wide", {}, 0.85}, Learning{"deep", {"--numbers", "scaled"}, 0.85},
        Learning{"wide_deep", {"--numbers", "scaled", "--dnn-learning-rate", "0.02"}, 0.85}),
    [](const auto& instance) { return std::string(instance.param.model); });

TEST_F(Census, BoostedTreesLearnOrSayWhatIsMissing) {
  const auto arguments = flags(folder_ / "job", 20) + Words{"--model", "boosted_trees"};
  if (MUSTER_HAS_XGBOOST) {
    const auto outcome = run_to_the_end(arguments);
    EXPECT_GT(metric(outcome, "auc"), 0.85);
    EXPECT_EQ(metric(outcome, "global_step"), 20);
  } else {
    const auto outcome = testing::run_program(CENSUS_PROGRAM, arguments);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("libxgboost"));
  }
}

TEST_F(Census, EvaluatesAllOfTheFileUnlessToldOtherwise) {
  const auto people = lines_of(folder_ / "adult.test.csv");
  const auto rich = std::count_if(people.begin(), people.end(),
                                  [](const auto& line) { return line.ends_with(">50K"); });
  const auto all = run_to_the_end(flags(folder_ / "job", 1) + Words{"--eval-batch-size", "40"});
  EXPECT_NEAR(metric(all, "label/mean"), static_cast<double>(rich) / 700, 1e-5);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "job/eval_census-eval/metrics.jsonl"));

  const auto first_rich = std::count_if(people.begin(), people.begin() + 80,
                                        [](const auto& line) { return line.ends_with(">50K"); });
  const auto two = run_to_the_end(flags(folder_ / "job", 1) +
                                  Words{"--eval-batch-size", "40", "--eval-steps", "2"});
  EXPECT_NEAR(metric(two, "label/mean"), static_cast<double>(first_rich) / 80, 1e-5);
}

// As an undisturbed run of as many steps: the model, bit for bit, and its metric.
TEST_F(Census, ATrialThatPausedEndsAsOneThatTrainedThrough) {
  const Path study = folder_ / "study";
  const std::string block =
      R"({"hyperparameterMetricTag": "auc", "maxTrials": 4, "maxParallelTrials": 2, "params":
          [{"parameterName": "dnn-learning-rate", "type": "DOUBLE", "minValue": 0.001,
            "maxValue": 0.1}]})";
  Words words{"tune", "--hyperparameters", block, "--job-dir", study, "--stop", "asha", "--warm",
              "--",   CENSUS_PROGRAM};
  Words shared = flags("", 54);
  std::erase(shared, "--job-dir");
  std::erase(shared, "");
  const std::string table = tool(words + shared);
  // TRIAL STATE auc STEP dnn-learning-rate
  std::smatch best;
  ASSERT_TRUE(
      std::regex_search(table, best, std::regex(R"(\n(\d+) +SUCCEEDED +([\d.]+) +54 +([\d.]+)\n)")))
      << table;
  const auto through =
      run_to_the_end(flags(folder_ / "through", 54) + Words{"--dnn-learning-rate", best[3].str()});
  EXPECT_EQ(fmt::format("{:.6g}", metric(through, "auc")), best[2].str());
  EXPECT_EQ(hash_of(folder_ / "through"), hash_of(study / best[1].str()));
  EXPECT_THAT(read_bytes(study / "study" / (best[1].str() + ".json")),
              HasSubstr(R"("maxSteps":"18")"));
  // Those that trained to their end have exported; those that paused have not.
  for (const char* trial : {"1", "2", "3", "4"}) {
    const bool is_whole =
        read_bytes(study / "study" / (std::string(trial) + ".json")).find(R"("maxSteps":"54")") !=
        std::string::npos;
    EXPECT_EQ(std::filesystem::exists(study / trial / "export"), is_whole) << trial;
  }
}

// A member of a population in two rounds, and a trial that went on from one with fewer steps: both
// end as one run of as many steps.
TEST_F(Census, ATrialThatWentOnFromAnotherEndsAsOneThatTrainedThrough) {
  const auto study = [&](const char* name, const std::string& block, std::int64_t steps) {
    Words shared = flags("", steps);
    std::erase(shared, "--job-dir");
    std::erase(shared, "");
    if (steps == 0) {
      std::erase(shared, "--train-steps");
      std::erase(shared, "0");
    }
    tool(Words{"tune", "--hyperparameters", block, "--job-dir", folder_ / name, "--warm", "--",
               CENSUS_PROGRAM} +
         shared);
    return folder_ / name;
  };
  const Path population = study("population",
                                R"({"hyperparameterMetricTag": "auc", "maxTrials": 4,
      "maxParallelTrials": 2, "algorithm": "POPULATION_BASED_TRAINING", "population": {"size": 2,
      "quantile": 0.5}, "params": [{"parameterName": "dnn-learning-rate", "type": "DOUBLE",
      "minValue": 0.001, "maxValue": 0.1}]})",
                                40);
  // One of the two went on as it was, and the other from it with another rate.
  const std::string third = read_bytes(population / "study" / "3.json");
  const std::string fourth = read_bytes(population / "study" / "4.json");
  const bool third_goes_on = third.find(R"("parentTrialId":"1")") != std::string::npos;
  EXPECT_THAT(fourth,
              HasSubstr(third_goes_on ? R"("parentTrialId":"1")" : R"("parentTrialId":"2")"));
  const std::string& json = third_goes_on ? third : fourth;
  std::smatch rate;
  ASSERT_TRUE(std::regex_search(json, rate, std::regex(R"("dnn-learning-rate":"([^"]+)\")")));
  run_to_the_end(flags(folder_ / "through", 40) + Words{"--dnn-learning-rate", rate[1].str()});
  EXPECT_EQ(hash_of(population / (third_goes_on ? "3" : "4")), hash_of(folder_ / "through"));
  EXPECT_NE(hash_of(population / (third_goes_on ? "4" : "3")), hash_of(folder_ / "through"));

  const Path grid = study("grid",
                          R"({"hyperparameterMetricTag": "auc", "maxTrials": 2, "algorithm":
      "GRID_SEARCH", "stepsParameter": "train-steps", "params": [{"parameterName":
      "dnn-learning-rate", "type": "DISCRETE", "discreteValues": [)" +
                              rate[1].str() + R"(]}, {"parameterName": "train-steps", "type":
      "DISCRETE", "discreteValues": [15, 40]}]})",
                          0);
  EXPECT_THAT(read_bytes(grid / "study" / "2.json"), HasSubstr(R"("parentTrialId":"1")"));
  EXPECT_EQ(hash_of(grid / "2"), hash_of(folder_ / "through"));
}

TEST_F(Census, AKilledRunEndsWithTheHashOfAnUndisturbedOne) {
  // Everything whose state a resume has to find again; 50 steps are an epoch.
  const Words more{"--save-checkpoints-steps", "3", "--dropout", "0.2"};
  run_to_the_end(flags(folder_ / "whole", 70) + more);
  for (const std::int64_t step : {10, 40}) {
    RunningProgram program(CENSUS_PROGRAM, flags(folder_ / "killed", 70) + more);
    const auto saved = [&] {
      const auto latest = latest_checkpoint(folder_ / "killed");
      return latest ? checkpoint_step(*latest).value() : -1;
    };
    while (!program.ended() && saved() < step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    program.send(SIGKILL);
    program.wait();
  }
  run_to_the_end(flags(folder_ / "killed", 70) + more);
  EXPECT_EQ(hash_of(folder_ / "whole"), hash_of(folder_ / "killed"));
}

/// The same with data, job and export in an S3.
class CensusOnS3 : public Census {
 protected:
  void SetUp() override {
    if (!MUSTER_HAS_STORES) GTEST_SKIP() << "built without libcurl or pugixml";
    Census::SetUp();
    for (const char* name : {"adult.data.csv", "adult.test.csv"}) {
      s3_.set_bytes(fmt::format("bucket/data/{}", name), read_bytes(folder_ / name));
    }
  }

  static Words environment(const std::string& endpoint) {
    return {"AWS_ENDPOINT_URL=" + endpoint, "AWS_ACCESS_KEY_ID=S3RVER",
            "AWS_SECRET_ACCESS_KEY=S3RVER", "AWS_REGION=us-east-1"};
  }
  Words environment() const { return environment(s3_.url()); }

  static Words flags_on_s3(const std::string& job, std::int64_t steps) {
    return flags("s3://bucket/data/adult.data.csv", "s3://bucket/data/adult.test.csv",
                 "s3://bucket/" + job, steps);
  }

  static std::string hash_on_s3(const std::string& job, const Words& environment) {
    const Outcome outcome = testing::run_program(
        MUSTER_PROGRAM, {"checkpoint", "hash", "s3://bucket/" + job}, environment);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out.substr(0, 64);
  }

  // The objects whose names begin and end so.
  Words objects(const std::string& begin, const std::string& end) const {
    Words names;
    for (const auto& object : s3_.objects()) {
      if (object.first.starts_with(begin) && object.first.ends_with(end)) {
        names.push_back(object.first);
      }
    }
    return names;
  }

  testing::FakeS3 s3_;
};

TEST_F(CensusOnS3, EndsWithTheHashOfARunOnADisk) {
  const Words more{"--save-checkpoints-steps", "10"};
  run_to_the_end(flags(folder_ / "job", 30) + more);
  // Answers fail, get lost and come late.
  s3_.fail_randomly(5, 7);
  const Outcome outcome =
      testing::run_program(CENSUS_PROGRAM, flags_on_s3("job", 30) + more, environment());
  s3_.fail_randomly(0, 0);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(hash_on_s3("job", environment()), hash_of(folder_ / "job"));
  EXPECT_EQ(objects("bucket/job/export/census/", "/saved_model.pb").size(), 1U);
  EXPECT_EQ(objects("bucket/job/events.out.tfevents.", "").size(), 1U);
  EXPECT_EQ(objects("bucket/job/model.ckpt-30.", "").size(), 3U);
  EXPECT_EQ(s3_.open_uploads(), 0U);
  EXPECT_THAT(objects("bucket/job/", ".muster-writer"), ::testing::IsEmpty());
  for (const auto& object : s3_.objects()) {
    EXPECT_EQ(object.first.find(".tmp-"), std::string::npos) << object.first;
    EXPECT_EQ(object.first.find("/temp-"), std::string::npos) << object.first;
  }
}

TEST_F(CensusOnS3, AKilledRunEndsWithTheHashOfAnUndisturbedOne) {
  const Words more{"--save-checkpoints-steps", "3", "--dropout", "0.2"};
  run_to_the_end(flags(folder_ / "whole", 60) + more);
  for (const int step : {9, 30}) {
    RunningProgram program(CENSUS_PROGRAM, flags_on_s3("killed", 60) + more,
                           {.environment = environment()});
    const std::string index = fmt::format("bucket/killed/model.ckpt-{}.index", step);
    ASSERT_TRUE(testing::eventually([&] { return program.ended() || s3_.bytes_of(index); }))
        << program.err();
    program.send(SIGKILL);
    program.wait();
  }
  EXPECT_EQ(objects("bucket/killed/", ".muster-writer").size(), 1U) << "it could not be given up";
  const Outcome outcome =
      testing::run_program(CENSUS_PROGRAM, flags_on_s3("killed", 60) + more, environment());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("took over the claim of s3://bucket/killed: its process"));
  EXPECT_EQ(hash_on_s3("killed", environment()), hash_of(folder_ / "whole"));
  EXPECT_EQ(s3_.open_uploads(), 0U);
}

TEST_F(CensusOnS3, ASecondChiefIsRefusedByName) {
  const Words shorter = environment() + Words{"MUSTER_CLAIM_LEASE_SECONDS=2"};
  RunningProgram first(CENSUS_PROGRAM, flags_on_s3("job", 1'000'000), {.environment = shorter});
  ASSERT_TRUE(testing::eventually([&] {
    return first.ended() || !objects("bucket/job/", ".muster-writer").empty();
  })) << first.err();
  const Outcome second = testing::run_program(CENSUS_PROGRAM, flags_on_s3("job", 10), shorter);
  EXPECT_NE(second.status, 0);
  EXPECT_THAT(second.err, HasSubstr(fmt::format("process {} on ", first.pid())));
  EXPECT_THAT(second.err, HasSubstr("writes to s3://bucket/job; wait for its end"));
  first.send(SIGKILL);
  first.wait();
}

TEST_F(CensusOnS3, SpeaksToAnS3OfOthers) {
  const char* const store = std::getenv("MUSTER_S3RVER");
  const char* const proxy = std::getenv("MUSTER_SIGV4_PROXY");
  if (store == nullptr || proxy == nullptr) {
    GTEST_SKIP() << "MUSTER_S3RVER names no s3rver.js, or MUSTER_SIGV4_PROXY nothing that checks "
                    "signatures in front of it";
  }
  const auto free_port = [] { return std::to_string(testing::RawTcpServer().port()); };
  const std::string behind = free_port(), before = free_port();
  // Its tokens are encrypted with DES.
  RunningProgram server("/usr/bin/env",
                        {"node", "--openssl-legacy-provider", store, "-d", folder_ / "s3", "-p",
                         behind, "-a", "127.0.0.1", "--configure-bucket", "bucket"});
  RunningProgram checker(
      "/usr/bin/env", {"python3", proxy, "--listen", before, "--upstream", "127.0.0.1:" + behind});
  // Hashes of what is sent are checked too, which this host itself is not sent by default.
  const Words asks =
      environment("http://127.0.0.1:" + before) + Words{"MUSTER_S3_PAYLOAD_SIGNING=true"};
  const auto copied = [&](const char* name) {
    return testing::run_program(
               MUSTER_PROGRAM,
               {"fs", "cp", folder_ / name, std::string("s3://bucket/data/") + name},
               asks + Words{"AWS_MAX_ATTEMPTS=3"})
               .status == 0;
  };
  ASSERT_TRUE(testing::eventually([&] { return copied("adult.data.csv"); }))
      << server.err() << checker.err();
  ASSERT_TRUE(copied("adult.test.csv"));
  run_to_the_end(flags(folder_ / "job", 30));
  const Outcome outcome = testing::run_program(CENSUS_PROGRAM, flags_on_s3("job", 30), asks);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(hash_on_s3("job", asks), hash_of(folder_ / "job"));
}

TEST_F(Census, OnGoogleCloudStorageAKilledRunEndsWithTheHashOfAnUndisturbedOneOnADisk) {
  if (!MUSTER_HAS_STORES) GTEST_SKIP() << "built without libcurl or pugixml";
  testing::FakeGcs gcs;
  for (const char* name : {"adult.data.csv", "adult.test.csv"}) {
    gcs.set_bytes(fmt::format("bucket/data/{}", name), read_bytes(folder_ / name));
  }
  const Words environment{"STORAGE_EMULATOR_HOST=" + gcs.url()};
  const Words more{"--save-checkpoints-steps", "10"};
  const Words there = flags("gs://bucket/data/adult.data.csv", "gs://bucket/data/adult.test.csv",
                            "gs://bucket/job", 30) +
                      more;
  run_to_the_end(flags(folder_ / "job", 30) + more);
  gcs.fail_randomly(5, 3);
  {
    RunningProgram program(CENSUS_PROGRAM, there, {.environment = environment});
    ASSERT_TRUE(testing::eventually([&] {
      return program.ended() || gcs.bytes_of("bucket/job/model.ckpt-10.index");
    })) << program.err();
    program.send(SIGKILL);
    program.wait();
  }
  const Outcome outcome = testing::run_program(CENSUS_PROGRAM, there, environment);
  gcs.fail_randomly(0, 0);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Outcome hash =
      testing::run_program(MUSTER_PROGRAM, {"checkpoint", "hash", "gs://bucket/job"}, environment);
  EXPECT_EQ(hash.out.substr(0, 64), hash_of(folder_ / "job")) << hash.err;
}

/// The same with data, job and export in HDFS.
class CensusOnHdfs : public Census {
 protected:
  void SetUp() override {
    if (!MUSTER_HAS_STORES) GTEST_SKIP() << "built without libcurl or pugixml";
    Census::SetUp();
  }

  static Words flags_on_hdfs(std::int64_t steps) {
    return flags("hdfs://namenode:8020/data/adult.data.csv",
                 "hdfs://namenode:8020/data/adult.test.csv", "hdfs://namenode:8020/job", steps);
  }

  static std::string hash_on_hdfs(const Words& environment) {
    const Outcome outcome = testing::run_program(
        MUSTER_PROGRAM, {"checkpoint", "hash", "hdfs://namenode:8020/job"}, environment);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out.substr(0, 64);
  }
};

TEST_F(CensusOnHdfs, AKilledRunEndsWithTheHashOfAnUndisturbedOneOnADisk) {
  testing::FakeWebHdfs hdfs;
  for (const char* name : {"adult.data.csv", "adult.test.csv"}) {
    hdfs.set_bytes(fmt::format("data/{}", name), read_bytes(folder_ / name));
  }
  const Words environment{"MUSTER_WEBHDFS=" + hdfs.url()};
  const Words more{"--save-checkpoints-steps", "10"};
  run_to_the_end(flags(folder_ / "job", 30) + more);
  hdfs.fail_randomly(5, 3);
  {
    RunningProgram program(CENSUS_PROGRAM, flags_on_hdfs(30) + more, {.environment = environment});
    ASSERT_TRUE(testing::eventually([&] {
      return program.ended() || hdfs.bytes_of("job/model.ckpt-10.index");
    })) << program.err();
    program.send(SIGKILL);
    program.wait();
  }
  const Outcome outcome =
      testing::run_program(CENSUS_PROGRAM, flags_on_hdfs(30) + more, environment);
  hdfs.fail_randomly(0, 0);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("took over the claim of hdfs://namenode:8020/job"));
  EXPECT_EQ(hash_on_hdfs(environment), hash_of(folder_ / "job"));
  Words exports;
  for (const auto& object : hdfs.objects()) {
    if (object.first.ends_with("/saved_model.pb")) exports.push_back(object.first);
    EXPECT_EQ(object.first.find(".muster-writer"), std::string::npos) << object.first;
    EXPECT_EQ(object.first.find("/temp-"), std::string::npos) << object.first;
  }
  EXPECT_EQ(exports.size(), 1U);
  EXPECT_EQ(hdfs.open_uploads(), 0U) << "files under temporary names";
}

TEST_F(CensusOnHdfs, SpeaksToAWebHdfsOfOthers) {
  const auto emulator = testing::WebHdfsEmulator::start();
  if (emulator == nullptr) {
    GTEST_SKIP() << "MUSTER_WEBHDFS_EMULATOR names no webhdfs_emulator.py, and there is none "
                    "beside MUSTER_DATA_DIR";
  }
  const Words environment{"MUSTER_WEBHDFS=" + emulator->url()};
  const Outcome copied = testing::run_program(
      MUSTER_PROGRAM,
      {"fs", "cp", folder_ / "adult.data.csv", folder_ / "adult.test.csv", "hdfs://h/data/"},
      environment);
  ASSERT_EQ(copied.status, 0) << copied.err;
  run_to_the_end(flags(folder_ / "job", 20));
  const Outcome outcome = testing::run_program(CENSUS_PROGRAM, flags_on_hdfs(20), environment);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(hash_on_hdfs(environment), hash_of(folder_ / "job"));
}

TEST_F(Census, TwoReplicasGiveOneHashWhether1Or2RunAtATime) {
  for (const char* concurrent : {"1", "2"}) {
    run_to_the_end(flags(folder_ / concurrent, 10) +
                   Words{"--replicas", "2", "--concurrent-replicas", concurrent});
  }
  EXPECT_EQ(hash_of(folder_ / "1"), hash_of(folder_ / "2"));
}

// As the original files have it: a blank behind every comma.
Words with_blanks(Words lines) {
  for (auto& line : lines) line = std::regex_replace(line, std::regex(","), ", ");
  return lines;
}

TEST_F(Census, FilesAsTheyComeGiveTheSameModelAndMetrics) {
  const auto people = lines_of(folder_ / "adult.data.csv");
  const Words header{
      "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,"
      "gender,capital_gain,capital_loss,hours_per_week,native_country,income_bracket"};
  // Two files, each with a header; an empty line in the middle and one at the end.
  const Words first(people.begin(), people.begin() + 1000);
  const Words second(people.begin() + 1000, people.end());
  write_lines(folder_ / "part1.csv", header + with_blanks(first) + Words{""});
  write_lines(folder_ / "part2.csv", with_blanks(header) + Words{""} + second + Words{""});
  Words test{"|1x3 Cross validator"};
  for (const auto& line : with_blanks(lines_of(folder_ / "adult.test.csv"))) {
    test.push_back(line + ".");
  }
  write_lines(folder_ / "raw.test", test + Words{""});

  const auto clean = run_to_the_end(flags(folder_ / "clean", 10));
  const auto raw =
      run_to_the_end(flags(folder_ / "part*.csv", folder_ / "raw.test", folder_ / "raw", 10));
  EXPECT_EQ(clean.out, raw.out);
  EXPECT_EQ(hash_of(folder_ / "clean"), hash_of(folder_ / "raw"));
}

TEST_F(Census, LinesThatAreNoPeopleAreRefusedWithFileAndLine) {
  const auto people = lines_of(folder_ / "adult.data.csv");
  const std::string start = "39,Private,77516,Bachelors,13,Divorced,Sales,Husband,White,Male,";
  const std::vector<std::pair<std::string, std::string>> wrong{
      {start + "2174,0,40,United-States", "14 fields, expected 15"},
      {start + "2174,0,40,United-States,rich", "income_bracket is 'rich'"},
      {start + "2174,0,40,United-States,", "income_bracket): required, but blank"},
      {start + "?,0,40,United-States,>50K", "capital_gain): not a valid int32: '?'"},
      {"|1x3 Cross validator", "age): not a valid int32: '|1x3 Cross validator'"},
  };
  for (const auto& [line, problem] : wrong) {
    Words lines(people.begin(), people.begin() + 60);
    lines[7] = line;
    write_lines(folder_ / "wrong.csv", lines);
    const auto outcome = testing::run_program(
        CENSUS_PROGRAM,
        flags(folder_ / "wrong.csv", folder_ / "adult.test.csv", folder_ / "job", 5));
    EXPECT_EQ(outcome.status, 1) << line;
    EXPECT_THAT(outcome.err, HasSubstr("wrong.csv line 8: "));
    EXPECT_THAT(outcome.err, HasSubstr(problem));
  }
}

TEST_F(Census, WrongFlagsAreNamedAndExitWith2) {
  const auto error_of = [&](const Words& more) {
    const Outcome outcome = testing::run_program(CENSUS_PROGRAM, flags(folder_ / "job", 1) + more);
    EXPECT_EQ(outcome.status, 2);
    return outcome.err;
  };
  EXPECT_THAT(error_of({"--export-format", "PNG"}), HasSubstr("--export-format"));
  EXPECT_THAT(error_of({"--export-format", "JSON", "--model", "boosted_trees"}),
              HasSubstr("--export-format"));
  EXPECT_THAT(error_of({"--model", "odd"}), HasSubstr("--model"));
  EXPECT_THAT(error_of({"--eval-files", folder_ / "none*"}), HasSubstr("--eval-files"));
}

TEST_F(Census, TheOriginalFilesAndTheCleanedOnesAreTheSame) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Words more{"--eval-batch-size", "2000"};
  const auto clean = run_to_the_end(
      flags(data / "census/adult.data.csv", data / "census/adult.test.csv", folder_ / "clean", 5) +
      more);
  const auto raw = run_to_the_end(
      flags(data / "census/adult.data", data / "census/adult.test", folder_ / "raw", 5) + more);
  EXPECT_EQ(clean.out, raw.out);
  EXPECT_EQ(hash_of(folder_ / "clean"), hash_of(folder_ / "raw"));
  EXPECT_NEAR(metric(raw, "label/mean"), 3846.0 / 16281.0, 1e-6);
}

}  // namespace
}  // namespace muster
