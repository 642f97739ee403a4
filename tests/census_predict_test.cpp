// From training to an answer with programs alone: census trains and exports, muster predict asks,
// muster export savedmodel makes the same model of what training left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/lines.h"
#include "muster/base/open_file.h"
#include "muster/base/random.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/testing/fake_s3.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/stand_in.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using ::testing::StartsWith;
using testing::TempDir;
using testing::write_bytes;

// A person in the three ways that the example can be fed.
constexpr const char* kRow =
    "25,Private,226802,11th,7,Never-married,Machine-op-inspct,Own-child,Black,Male,0,0,40,"
    "United-States,<=50K\n";
constexpr const char* kInstance =
    R"({"age": 25, "workclass": "Private", "education": "11th", "education_num": 7, )"
    R"("marital_status": "Never-married", "occupation": "Machine-op-inspct", )"
    R"("relationship": "Own-child", "race": "Black", "gender": "Male", "capital_gain": 0, )"
    R"("capital_loss": 0, "hours_per_week": 40, "native_country": "United-States"})";
constexpr const char* kExpressions =
    "age=[25];workclass=['Private'];education=['11th'];education_num=[7];marital_status="
    "['Never-married'];occupation=['Machine-op-inspct'];relationship=['Own-child'];race=['Black'];"
    "gender=['Male'];capital_gain=[0];capital_loss=[0];hours_per_week=[40];native_country="
    "['United-States']";
constexpr const char* kExample =
    "example_proto=[{'age': [25.0], 'workclass': ['Private'], 'education': ['11th'], "
    "'education_num': [7.0], 'marital_status': ['Never-married'], 'occupation': "
    "['Machine-op-inspct'], 'relationship': ['Own-child'], 'race': ['Black'], 'gender': ['Male'], "
    "'capital_gain': [0.0], 'capital_loss': [0.0], 'hours_per_week': [40.0], 'native_country': "
    "['United-States']}]";

class CensusPredict : public ::testing::Test {
 protected:
  void SetUp() override {
    tool({"records", "synth", "census", "--output", folder_.path(), "--train", "400", "--test",
          "40"});
    write_bytes(folder_ / "person.json", std::string(kInstance) + "\n");
    write_bytes(folder_ / "person.csv", kRow);
  }

  static std::string tool(const std::vector<std::string>& arguments) {
    const Outcome outcome = testing::run_program(MUSTER_PROGRAM, arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }

  // The same weights each time: only the way in differs.
  Path train(const std::string& format) { return train_in(folder_.path(), format); }
  static Path train_in(const Path& folder, const std::string& format) {
    const Path job_dir = folder / format;
    const Outcome outcome = testing::run_program(
        CENSUS_PROGRAM,
        {"--train-files", folder / "adult.data.csv", "--eval-files", folder / "adult.test.csv",
         "--job-dir", job_dir, "--train-steps", "10", "--seed", "7", "--export-format", format});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return job_dir;
  }

  Path export_of(const std::string& format) {
    return graph::latest_export(folder_ / (format + "/export/census"));
  }

  std::string predict(const Path& model, const char* flag, const char* file,
                      const std::string& signature) {
    return tool(
        {"predict", "--model-dir", model, flag, folder_ / file, "--signature-name", signature});
  }

  TempDir folder_;
};

TEST_F(CensusPredict, JsonRowsAndExamplesGetTheSameAnswer) {
  const std::string json =
      predict(train("JSON") / "export/census", "--json-instances", "person.json", "predict");
  EXPECT_THAT(json, StartsWith("ALL_CLASS_IDS  ALL_CLASSES  CLASS_IDS  CLASSES  LOGISTIC"));
  const Path csv = train("CSV") / "export/census";
  EXPECT_EQ(predict(csv, "--text-instances", "person.csv", "predict"), json);
  EXPECT_THAT(predict(csv, "--text-instances", "person.csv", "classification"),
              StartsWith("CLASSES     SCORES\n['0', '1']  [0."));
  const auto run = [](const Path& model, const char* flag, const char* inputs) {
    return tool({"model", "run", "--dir", model, "--signature_def", "predict", flag, inputs});
  };
  const std::string arrays = run(export_of("JSON"), "--input_exprs", kExpressions);
  EXPECT_THAT(arrays, HasSubstr("Result for output key classes:\n[[b'"));
  train("EXAMPLE");
  EXPECT_EQ(run(export_of("EXAMPLE"), "--input_examples", kExample), arrays);
}

TEST_F(CensusPredict, TheGraphAndACheckpointOfTheJobFolderAnswerAsTheExportDoes) {
  const Path job_dir = train("JSON");
  tool({"export", "savedmodel", "--model-dir", job_dir});
  EXPECT_EQ(
      predict(job_dir / "export/savedmodel", "--json-instances", "person.json", "serving_default"),
      predict(job_dir / "export/census", "--json-instances", "person.json", "serving_default"));
}

TEST_F(CensusPredict, ARunIsRecordedInItsFolderAndCompared) {
  const Path json = train("JSON");
  const Path csv = train("CSV");
  const std::string shown = tool({"runs", "show", json});
  EXPECT_THAT(shown, HasSubstr(CENSUS_PROGRAM));
  EXPECT_THAT(shown, ::testing::ContainsRegex("argument --train-steps +10\n"));
  EXPECT_THAT(shown, ::testing::ContainsRegex("\nseed +7\n"));
  EXPECT_THAT(shown, ::testing::ContainsRegex("\nversion libtorch +[0-9]+\\.[0-9]+"));
  const auto bytes = std::filesystem::file_size(folder_ / "adult.data.csv");
  EXPECT_THAT(shown,
              ::testing::ContainsRegex("/adult.data.csv +" + std::to_string(bytes) + " bytes, 20"));
  EXPECT_THAT(shown, ::testing::ContainsRegex("\nglobal_step +10\n"));
  EXPECT_THAT(shown, ::testing::ContainsRegex("\nmetric accuracy +0\\."));
  // The same training, exported in another way.
  const std::string difference = tool({"runs", "compare", json, csv});
  EXPECT_THAT(difference, ::testing::ContainsRegex("argument --export-format +JSON +CSV"));
  EXPECT_THAT(difference, ::testing::Not(HasSubstr("metric")));
  EXPECT_THAT(tool({"runs", "list", folder_.path(), "--sort", "accuracy"}), StartsWith("RUN "));
}

// People with a key, as JSON lines; every 500th line is none.
void write_people(const Path& csv, const Path& json) {
  constexpr const char* kNames[] = {"age",
                                    "workclass",
                                    "",
                                    "education",
                                    "education_num",
                                    "marital_status",
                                    "occupation",
                                    "relationship",
                                    "race",
                                    "gender",
                                    "capital_gain",
                                    "capital_loss",
                                    "hours_per_week",
                                    "native_country"};
  std::ifstream in(csv);
  std::ofstream out(json);
  std::string row;
  for (std::int64_t number = 0; std::getline(in, row); ++number) {
    if (number % 500 == 499) {
      out << "{\"key\": " << number << ", oops}\n";
      continue;
    }
    out << "{\"key\": " << number;
    std::istringstream fields(row);
    std::string field;
    for (const std::string name : kNames) {
      std::getline(fields, field, ',');
      if (name.empty()) continue;
      const bool is_number = field.find_first_not_of("0123456789") == field.npos;
      out << ", \"" << name << "\": " << (is_number ? field : "\"" + field + "\"");
    }
    out << "}\n";
  }
}

// Instances that shards of a job have saved.
std::int64_t saved_instances(const Path& output) {
  std::int64_t sum = 0;
  std::error_code absent;
  for (const auto& file : std::filesystem::directory_iterator(output / ".batch_predict", absent)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with("shard-") || file.path().extension() != ".json") continue;
    const std::string text = testing::read_bytes(file.path());
    const auto at = text.find("\"records\": ");
    if (at != text.npos) sum += std::atoll(text.c_str() + at + 11);
  }
  return sum;
}

/// Shards that the test has, as another process would: a job passes over them and cannot end, so
/// that what happens to it happens before its end however fast it is.
class HeldShards {
 public:
  HeldShards(const Path& output, std::size_t first, std::size_t end) {
    const Path folder = output / ".batch_predict";
    std::filesystem::create_directories(folder);
    for (std::size_t shard = first; shard < end; ++shard) {
      locks_.emplace_back(folder / fmt::format("shard-{:05}.lock", shard), O_RDWR | O_CREAT);
      EXPECT_EQ(::flock(locks_.back().get(), LOCK_EX | LOCK_NB), 0);
    }
  }

  /// The first of those that are left, which the job then takes within a moment.
  void release(std::size_t count) {
    for (; count > 0; --count) locks_.pop_front();
  }

 private:
  std::deque<OpenFile> locks_;
};

std::vector<pid_t> children_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/task/" + std::to_string(process) +
                     "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

// Forks of the program that the command started.
std::vector<pid_t> workers_of(pid_t command) {
  std::vector<pid_t> workers;
  for (const pid_t program : children_of(command)) {
    const auto forks = children_of(program);
    workers.insert(workers.end(), forks.begin(), forks.end());
  }
  return workers;
}

void kill_all(const std::vector<pid_t>& processes) {
  for (const pid_t process : processes) ::kill(process, SIGKILL);
}

/// Batch predictions of many people with one model, and what an undisturbed one gives.
class CensusBatch : public CensusPredict {
 protected:
  void SetUp() override {}

  static void SetUpTestSuite() {
    shared_ = new TempDir;
    tool({"records", "synth", "census", "--output", shared_->path(), "--train",
          std::to_string(kRows), "--test", "40"});
    write_people(*shared_ / "adult.data.csv", *shared_ / "people.json");
    train_in(shared_->path(), "JSON");
    testing::RunningProgram undisturbed(MUSTER_PROGRAM, arguments(*shared_ / "once"));
    EXPECT_EQ(undisturbed.wait().status, 0) << undisturbed.err();
  }
  static void TearDownTestSuite() { delete shared_; }

  static std::vector<std::string> arguments(const Path& output) {
    return {"batch-predict",
            "--model-dir",
            *shared_ / "JSON/export/census",
            "--input-paths",
            *shared_ / "people.json",
            "--data-format",
            "json",
            "--output-path",
            output,
            "--key-field",
            "key",
            "--max-worker-count",
            std::to_string(kShards),
            "--save-secs",
            testing::are_tests_long() ? "0.5" : "0"};
  }

  /// The results of an undisturbed job by their names, with the lines of all of them counted.
  static std::map<std::string, std::string> undisturbed() {
    std::map<std::string, std::string> results;
    std::int64_t lines = 0;
    for (const auto& file : std::filesystem::directory_iterator(*shared_ / "once")) {
      if (file.is_directory()) continue;
      std::string& bytes = results[file.path().filename()];
      bytes = testing::read_bytes(file.path());
      lines += static_cast<std::int64_t>(lines_of(bytes).size());
    }
    EXPECT_EQ(lines, kRows);
    return results;
  }

  static inline const std::int64_t kRows = testing::are_tests_long() ? 1'000'000 : 3'000;
  static inline const std::size_t kKills = testing::are_tests_long() ? 10 : 3;
  static constexpr std::size_t kShardsAKill = 3;
  // Those that are held until the last kill come on top.
  static inline const std::size_t kShards = (kShardsAKill + 1) * kKills;
  static inline TempDir* shared_ = nullptr;
};

TEST_F(CensusBatch, ThatIsKilledGivesWhatAnUndisturbedOneGives) {
  const std::int64_t rows = kRows;
  const Path output = folder_ / "killed";
  Random random(18, 0, 0);
  {
    HeldShards held(output, 0, kShards);
    for (std::size_t kill = 0; kill < kKills; ++kill) {
      const std::int64_t enough =
          saved_instances(output) +
          static_cast<std::int64_t>(
              random.uniform(1, static_cast<double>(rows) / static_cast<double>(2 * kKills)));
      held.release(kShardsAKill);
      testing::RunningProgram program(MUSTER_PROGRAM, arguments(output));
      // Workers of a command that was killed alone save what they have, perhaps more than enough.
      while (saved_instances(output) < enough || workers_of(program.pid()).empty()) {
        ASSERT_FALSE(program.ended()) << "before kill " << kill << ": " << program.err();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      // Anywhere between two saves.
      std::this_thread::sleep_for(std::chrono::milliseconds(
          static_cast<int>(random.uniform(0, testing::are_tests_long() ? 250 : 5))));
      // Workers first, or all at once, or the command alone, whose workers then end by themselves.
      std::vector<pid_t> workers;
      while ((workers = workers_of(program.pid())).empty()) {
        ASSERT_FALSE(program.ended()) << "at kill " << kill << ": " << program.err();
      }
      if (kill % 3 == 1) program.send(SIGKILL);
      if (kill % 3 != 2) kill_all(workers);
      program.send(SIGKILL);
    }
    EXPECT_LE(saved_instances(output), rows * 3 / 4 + rows / 500);
  }
  const Outcome last = testing::RunningProgram(MUSTER_PROGRAM, arguments(output)).wait();
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.out, HasSubstr("errorCount: '" + std::to_string(rows / 500) + "'"));
  EXPECT_THAT(last.out, HasSubstr("predictionCount: '" + std::to_string(rows - rows / 500) + "'"));
  for (const auto& [name, wanted] : undisturbed()) {
    EXPECT_TRUE(testing::read_bytes(output / name) == wanted) << name;
  }
}

TEST_F(CensusBatch, WhoseOutputLiesInAStoreIsResumedAfterAKillWithoutALineLostOrDoubled) {
  if (!MUSTER_HAS_STORES) GTEST_SKIP() << "built without libcurl or pugixml";
  testing::FakeS3 store;
  const testing::ProgramOptions options{
      .environment = {"AWS_ENDPOINT_URL=" + store.url(), "AWS_ACCESS_KEY_ID=id",
                      "AWS_SECRET_ACCESS_KEY=secret", "TMPDIR=" + folder_.path().string()}};
  const auto results = [&] {
    std::map<std::string, std::string> found;
    const std::string begin = "bucket/out/";
    for (const auto& [name, object] : store.objects()) {
      if (name.starts_with(begin + "prediction.")) found[name.substr(begin.size())] = object.bytes;
    }
    return found;
  };
  const auto puts_result = [](const testing::HttpCall& call) {
    return call.method == "PUT" && call.path.find("/out/prediction.") != std::string::npos;
  };
  const auto wait_until = [](testing::RunningProgram& program, const auto& condition) {
    while (!condition()) {
      ASSERT_FALSE(program.ended()) << program.err();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  // While it predicts, in a folder of this host. If it is faster than the test, nothing gets out.
  {
    std::atomic<bool> copies{false};
    store.set_fault([&](const testing::HttpCall& call) -> std::optional<testing::CannedResponse> {
      if (!puts_result(call)) return std::nullopt;
      copies = true;
      return testing::CannedResponse{.delay = std::chrono::milliseconds(20), .hang_up = true};
    });
    testing::RunningProgram program(MUSTER_PROGRAM, arguments("s3://bucket/out"), options);
    wait_until(program, [&] {
      for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
        if (saved_instances(entry.path()) > kRows / 4) return true;
      }
      return copies.load();
    });
    kill_all(workers_of(program.pid()));
    program.send(SIGKILL);
    program.wait();
    store.set_fault({});
    EXPECT_TRUE(results().empty());
  }
  // While it copies what it has made: one is there, the next is on its way.
  {
    std::atomic<bool> is_killed{false}, is_half{false};
    store.set_fault([&](const testing::HttpCall& call) -> std::optional<testing::CannedResponse> {
      if (is_killed || !puts_result(call) || results().empty()) return std::nullopt;
      is_half = true;
      return testing::CannedResponse{.delay = std::chrono::milliseconds(20), .hang_up = true};
    });
    testing::RunningProgram program(MUSTER_PROGRAM, arguments("s3://bucket/out"), options);
    wait_until(program, [&] { return is_half.load(); });
    program.send(SIGKILL);
    program.wait();
    is_killed = true;
    store.set_fault({});
    EXPECT_EQ(results().size(), 1U);
  }
  testing::RunningProgram last(MUSTER_PROGRAM, arguments("s3://bucket/out"), options);
  const Outcome outcome = last.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("predictionCount: '" + std::to_string(kRows - kRows / 500) + "'"));
  EXPECT_TRUE(results() == undisturbed());
  EXPECT_EQ(store.orphans(), 0U);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "what it worked in is left";
}

TEST_F(CensusBatch, ThatIsAskedToStopSavesAndItsWorkersAreReplacedWhenTheyAreKilled) {
  tool({"records", "synth", "census", "--output", folder_ / "many", "--train", "3000", "--test",
        "40"});
  write_people(folder_ / "many/adult.data.csv", folder_ / "people.json");
  const std::vector<std::string> arguments{"batch-predict",
                                           "--model-dir",
                                           *shared_ / "JSON/export/census",
                                           "--input-paths",
                                           folder_ / "people.json",
                                           "--data-format",
                                           "json",
                                           "--output-path",
                                           folder_ / "out",
                                           "--key-field",
                                           "key",
                                           "--save-secs",
                                           "0",
                                           "--output-format",
                                           "csv"};
  const auto wait_for = [&](testing::RunningProgram& program, std::int64_t saved) {
    while (saved_instances(folder_ / "out") < saved) {
      ASSERT_FALSE(program.ended()) << program.err();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  // 300 instances each.
  HeldShards held(folder_ / "out", 3, 10);
  testing::RunningProgram stopped(MUSTER_PROGRAM, arguments);
  wait_for(stopped, 500);
  stopped.send(SIGTERM);
  const Outcome stop = stopped.wait();
  EXPECT_EQ(stop.status, 128 + SIGTERM) << stop.err;
  EXPECT_THAT(stop.err, HasSubstr("of 3000 instances saved; the same command continues"));

  held.release(2);
  testing::RunningProgram resumed(MUSTER_PROGRAM, arguments);
  wait_for(resumed, 1000);
  // While it waits for the others, workers come and go.
  while (resumed.err().find("a worker was ended by signal 9; another goes on") ==
         std::string::npos) {
    ASSERT_FALSE(resumed.ended()) << resumed.err();
    kill_all(workers_of(resumed.pid()));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  held.release(2);
  wait_for(resumed, 1600);
  // The program that they are forks of: they end with it, and it is loaded again.
  const std::vector<pid_t> program = children_of(resumed.pid());
  EXPECT_EQ(program.size(), 1U);
  kill_all(program);
  held.release(3);
  const Outcome end = resumed.wait();
  EXPECT_EQ(end.status, 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("predictionCount: '2994'"));
}

// ------------------------------------------------------------------------------------- as jobs

class CensusJobs : public CensusPredict {
 protected:
  void TearDown() override {
    for (const char* name : {"census_1", "batch_1", "batch_2"}) {
      if (!std::filesystem::exists(jobs_dir_ / name)) continue;
      jobs({"cancel", name});
      jobs({"wait", name, "--timeout", "60"});
    }
    kill_process(jobs_dir_ / "supervisor.pid", SIGTERM);
  }

  Outcome jobs(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all{"jobs"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return testing::run_program(MUSTER_PROGRAM, all, {"MUSTER_JOBS_DIR=" + jobs_dir_.string()});
  }
  Outcome submit_prediction(const std::string& name, const Path& model, const char* output) const {
    return jobs({"submit", "prediction", name, "--model-dir", model, "--data-format", "text",
                 "--input-paths", folder_ / "people.json", "--output-path", folder_ / output,
                 "--key-field", "key", "--save-secs", "0", "--region", "us-central1"});
  }
  // The process whose number is the first line of a file.
  static bool kill_process(const Path& pid_file, int signal) {
    std::ifstream file(pid_file);
    pid_t process = 0;
    return static_cast<bool>(file >> process) && process > 1 && ::kill(process, signal) == 0;
  }
  // Lines of all results, by shard.
  std::string results(const char* output) const {
    std::vector<Path> files;
    for (const auto& file : std::filesystem::directory_iterator(folder_ / output)) {
      if (!file.is_directory()) files.push_back(file.path());
    }
    std::sort(files.begin(), files.end());
    std::string all;
    for (const Path& file : files) all += testing::read_bytes(file);
    return all;
  }

  const Path jobs_dir_ = folder_ / "jobs";
};

TEST_F(CensusJobs, AreTrainedInTheStandardTierAndTheirExportAnswersFiles) {
  write_people(folder_ / "adult.data.csv", folder_ / "people.json");
  const Path job_dir = folder_ / "out";
  const Outcome trained = jobs({"submit",
                                "training",
                                "census_1",
                                "--scale-tier",
                                "STANDARD_1",
                                "--runtime-version",
                                "1.4",
                                "--region",
                                "us-central1",
                                "--job-dir",
                                job_dir,
                                "--stream-logs",
                                "--",
                                testing::warm_stand_in(CENSUS_PROGRAM),
                                "--train-files",
                                folder_ / "adult.data.csv",
                                "--eval-files",
                                folder_ / "adult.test.csv",
                                "--train-steps",
                                "20",
                                "--eval-steps",
                                "2",
                                "--export-format",
                                "JSON"});
  EXPECT_EQ(trained.status, 0) << trained.out << trained.err;
  for (const char* task : {"master-replica-0", "worker-replica-3", "ps-replica-2"}) {
    EXPECT_THAT(trained.out, HasSubstr(task));
  }
  EXPECT_THAT(trained.out, HasSubstr("job census_1 is SUCCEEDED"));
  EXPECT_THAT(jobs({"list"}).out, HasSubstr("census_1  SUCCEEDED  2"));
  EXPECT_THAT(jobs({"describe", "census_1"}).out, HasSubstr("STANDARD_1"));

  const Path model = job_dir / "export/census";
  const Outcome submitted = submit_prediction("batch_1", model, "predicted");
  ASSERT_EQ(submitted.status, 0) << submitted.err;
  EXPECT_THAT(submitted.err, HasSubstr("--region has no meaning on this host"));
  const Outcome waited = jobs({"wait", "batch_1", "--timeout", "100"});
  EXPECT_EQ(waited.out, "SUCCEEDED\n") << waited.err << jobs({"stream-logs", "batch_1"}).out;
  const std::string described = jobs({"describe", "batch_1"}).out;
  EXPECT_THAT(described, HasSubstr("JSON"));
  EXPECT_THAT(described, HasSubstr("predictionOutput:\n  errorCount: '0'\n"));
  EXPECT_THAT(described, HasSubstr("predictionCount: '400'\n"));
  EXPECT_THAT(jobs({"describe", "batch_1", "--summarize"}).out,
              HasSubstr("Prediction Output Summary\n  predictionCount  400\n"));
  EXPECT_THAT(results("predicted"), HasSubstr("\"probabilities\""));
  const Outcome online = testing::run_program(
      MUSTER_PROGRAM,
      {"predict", "--model-dir", model, "--json-instances", folder_ / "person.json"});
  EXPECT_EQ(online.status, 0) << online.err;
  EXPECT_THAT(online.out, HasSubstr("PROBABILITIES"));
}

TEST_F(CensusJobs, ThatAnswerFilesGoOnAfterAllIsKilledAndAfterACancel) {
  tool({"records", "synth", "census", "--output", folder_ / "many", "--train", "3000", "--test",
        "40"});
  write_people(folder_ / "many/adult.data.csv", folder_ / "people.json");
  const Path model = train("JSON") / "export/census";
  const auto wait_for_saved = [&](std::int64_t saved) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (saved_instances(folder_ / "out") < saved) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  // 300 instances each.
  HeldShards held(folder_ / "out", 2, 10);
  ASSERT_EQ(submit_prediction("batch_1", model, "out").status, 0);
  wait_for_saved(200);
  EXPECT_TRUE(kill_process(jobs_dir_ / "supervisor.pid", SIGKILL));
  EXPECT_TRUE(kill_process(jobs_dir_ / "batch_1/run.pid", SIGKILL));
  kill_process(jobs_dir_ / "batch_1/attempts/1/master.pid", SIGKILL);
  // Any command that looks at it starts it again.
  EXPECT_EQ(jobs({"list"}).status, 0);
  held.release(3);
  wait_for_saved(700);
  EXPECT_EQ(jobs({"cancel", "batch_1"}).status, 0);
  EXPECT_EQ(jobs({"wait", "batch_1", "--timeout", "100"}).out, "CANCELLED\n");
  const std::int64_t saved = saved_instances(folder_ / "out");
  EXPECT_GE(saved, 700);
  EXPECT_LE(saved, 1500);
  held.release(5);
  ASSERT_EQ(submit_prediction("batch_2", model, "out").status, 0);
  EXPECT_EQ(jobs({"wait", "batch_2", "--timeout", "100"}).out, "SUCCEEDED\n")
      << jobs({"stream-logs", "batch_2"}).out;
  EXPECT_THAT(jobs({"describe", "batch_2"}).out, HasSubstr("predictionCount: '2994'"));

  tool({"batch-predict", "--model-dir", model, "--input-paths", folder_ / "people.json",
        "--data-format", "json", "--output-path", folder_ / "once", "--key-field", "key"});
  EXPECT_TRUE(results("out") == results("once"));
}

TEST_F(CensusJobs, ThatCannotAnswerAreNotSubmitted) {
  const auto refused = [&](const std::vector<std::string>& flags, int status, const char* words) {
    std::vector<std::string> all{"submit", "prediction", "batch_1", "--output-path",
                                 folder_ / "out"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome run = jobs(all);
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_THAT(run.err, HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(jobs_dir_ / "batch_1"));
  };
  const std::string files = folder_ / "person.json";
  refused({"--input-paths", files, "--data-format", "text"}, 2, "one of --model-dir");
  refused({"--input-paths", files, "--data-format", "text", "--model-dir", "a", "--model", "b"}, 2,
          "one of --model-dir");
  refused({"--input-paths", files, "--data-format", "text", "--model-dir", "a", "--version", "v"},
          2, "--version goes with --model");
  refused({"--input-paths", files, "--data-format", "text", "--model-dir", folder_ / "none"}, 1,
          "none");
  refused({"--input-paths", files, "--data-format", "text", "--model", "none", "--models-dir",
           folder_ / "models"},
          1, "none");
}

}  // namespace
}  // namespace muster
