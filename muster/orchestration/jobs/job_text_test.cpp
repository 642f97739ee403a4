#include "muster/orchestration/jobs/job_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/kubernetes_run.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::jobs {
namespace {

using ::muster::testing::message_of;
using ::muster::testing::TempDir;
using ::muster::testing::write_bytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

Job full_job() {
  Job job;
  job.job_id = "census_1";
  job.state = State::kCancelling;
  job.create_time = parse_time("2026-03-01T10:04:11.532001Z");
  job.start_time = parse_time("2026-03-01T10:04:12.000000Z");
  job.error_message = "The job was \"cancelled\"\nby the user.";
  job.labels = {{"team", "a"}, {"n", ""}};
  TrainingInput& input = job.training_input;
  input.scale_tier = "CUSTOM";
  input.master.machine_type = "standard_gpu";
  input.worker = {.machine_type = "standard", .count = 2, .accelerator = {"nvidia-tesla-k80", 3}};
  input.module_name = "trainer.task";
  input.args = {"--train-steps", "100", "", "a b\xc3\xa4", "-1"};
  input.job_dir = "out";
  input.use_chief = true;
  input.max_running_time = std::chrono::seconds(7200);
  input.max_wait_time = std::chrono::seconds(60);
  input.priority = 5;
  input.cloud_fields = R"({"region":"us-central1"})";
  job.local.command = {"/bin/census", "--x"};
  job.local.working_directory = "/tmp";
  job.local.is_single = false;
  job.local.chief = "chief";
  job.local.workers = 2;
  job.local.ps = 1;
  job.local.evaluators = 1;
  job.local.worker_gpus = 3;
  job.local.needs = {.cpus = 1.5, .memory_gb = 2.25, .gpus = 1};
  job.local.gpus = {"0"};
  job.local.attempts = 3;
  job.local.retries = 1;
  job.local.exit_status = 75;
  return job;
}

TEST(JobText, ComesBackFromJson) {
  EXPECT_EQ(job_from_json(to_json(full_job())), full_job());
  EXPECT_EQ(job_from_json(to_json(Job{.job_id = "a"})), Job{.job_id = "a"});
}

TEST(JobText, ComesBackFromJsonWithItsPlaceInACluster) {
  Job job = full_job();
  job.back_end = "kubernetes";
  const KubernetesRun run{.name = "census-1",
                          .run_id = "0123",
                          .kind = "jobset",
                          .kubectl = "k",
                          .context = "c",
                          .name_space = "n",
                          .has_service = true,
                          .has_secret = true,
                          .is_submitted = true,
                          .has_run = true,
                          .note = "why"};
  keep(job, run);
  EXPECT_EQ(job_from_json(to_json(job)), job);
  EXPECT_EQ(kubernetes_run(job), run);
  keep(job, KubernetesRun{});
  EXPECT_EQ(job_from_json(to_json(job)), job);
  EXPECT_EQ(kubernetes_run(job), KubernetesRun());
}

TEST(JobText, ComesBackFromJsonWithAPrediction) {
  Job job = full_job();
  job.training_input = {};
  job.prediction_input = PredictionInput{.uri = "/models/census/1",
                                         .model_name = "census",
                                         .version_name = "v1",
                                         .data_format = "TF_RECORD",
                                         .output_data_format = "CSV",
                                         .input_paths = {"a*", "b"},
                                         .output_path = "/out",
                                         .region = "r",
                                         .runtime_version = "1.4",
                                         .signature_name = "predict",
                                         .max_worker_count = 3,
                                         .batch_size = 7};
  EXPECT_EQ(job_from_json(to_json(job)), job);
  EXPECT_THAT(to_json(job), Not(HasSubstr("trainingInput")));
}

TEST(JobText, WritesLongNumbersAsTheApiDoes) {
  EXPECT_THAT(to_json(full_job()), AllOf(HasSubstr("\"workerCount\": \"2\""),
                                         HasSubstr("\"maxRunningTime\": \"7200s\"")));
}

TEST(JobText, SaysDataLossForWhatIsNoJob) {
  std::string cut = to_json(full_job());
  cut.resize(cut.size() / 2);
  for (const std::string& text : {cut, std::string(), std::string("[]"), std::string("{}"),
                                  std::string(R"({"jobId":"a","state":"DONE"})")}) {
    EXPECT_THROW(job_from_json(text), DataLoss) << text;
  }
}

TEST(JobText, AsYamlKeepsWordsThatLookLikeNumbers) {
  if (!MUSTER_HAS_YAML) GTEST_SKIP() << "muster was built without yaml-cpp";
  const std::string yaml = to_yaml(full_job());
  EXPECT_THAT(yaml, StartsWith("jobId: census_1\nstate: CANCELLING\n"));
  EXPECT_THAT(yaml, AllOf(HasSubstr("- '100'"), HasSubstr("- ''"), HasSubstr("- '-1'")));
}

TEST(Duration, IsWholeSeconds) {
  EXPECT_EQ(parse_duration("7200s"), std::chrono::seconds(7200));
  for (const char* text : {"", "s", "7200", "1.5s", "-1s", "1h", "99999999999999999999s"}) {
    EXPECT_THROW(parse_duration(text), InvalidArgument) << text;
  }
}

class JobFile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!MUSTER_HAS_YAML) GTEST_SKIP() << "muster was built without yaml-cpp";
  }
  Submission read(const std::string& text) {
    write_bytes(dir_ / "config.yaml", text);
    Submission submission;
    read_job_file(dir_ / "config.yaml", submission);
    return submission;
  }
  std::string error_of(const std::string& text) {
    return message_of([&] { read(text); });
  }
  std::string place(int line) const {
    return (dir_ / "config.yaml").string() + ":" + std::to_string(line) + ": ";
  }

  TempDir dir_;
};

TEST_F(JobFile, OfTheCensusSampleIsReadAsItIs) {
  const Submission submission = read(
      "trainingInput:\n"
      "  scaleTier: CUSTOM\n"
      "  masterType: standard_gpu\n"
      "  workerType: standard_gpu\n"
      "  parameterServerType: standard\n"
      "  workerCount: 4\n"
      "  parameterServerCount: '3'\n"
      "  runtimeVersion: \"1.4\"\n");
  const TrainingInput& input = submission.job.training_input;
  EXPECT_EQ(input.scale_tier, "CUSTOM");
  EXPECT_EQ(input.worker.count, 4);
  EXPECT_EQ(input.parameter_server.count, 3);
  EXPECT_EQ(input.cloud_fields, R"({"runtimeVersion":"1.4"})");
  EXPECT_EQ(submission.origins.at("workerCount"), (dir_ / "config.yaml").string() + ":6");
  EXPECT_THAT(submission.warnings,
              ElementsAre(AllOf(StartsWith(place(8)), HasSubstr("trainingInput.runtimeVersion"))));
}

TEST_F(JobFile, KeepsHyperparametersAsTheyAre) {
  const Submission submission = read(
      "trainingInput:\n"
      "  hyperparameters:\n"
      "    goal: MAXIMIZE\n"
      "    hyperparameterMetricTag: accuracy\n"
      "    maxTrials: 4\n"
      "    params:\n"
      "      - parameterName: first-layer-size\n"
      "        type: INTEGER\n"
      "        minValue: 50\n"
      "        maxValue: 500\n");
  EXPECT_THAT(submission.warnings, IsEmpty());
  EXPECT_THAT(submission.job.training_input.cloud_fields, HasSubstr(R"("maxTrials":4)"));
}

TEST_F(JobFile, MayBeJson) {
  const Submission submission = read(
      R"({"labels": {"team": "a"}, "trainingInput": {"args": ["--x", "1"], "jobDir": "out",
          "scheduling": {"maxRunningTime": "60s", "priority": 3}}})");
  EXPECT_EQ(submission.job.labels.at("team"), "a");
  EXPECT_THAT(submission.job.training_input.args, ElementsAre("--x", "1"));
  EXPECT_EQ(submission.job.training_input.max_running_time, std::chrono::seconds(60));
  EXPECT_EQ(submission.job.training_input.priority, 3);
  EXPECT_THAT(submission.warnings, IsEmpty());
}

TEST_F(JobFile, ErrorsNameFileAndLine) {
  EXPECT_THAT(error_of("trainingInput:\n  scaleTier: [BASIC\n  region: x\n"), HasSubstr(place(3)));
  EXPECT_THAT(error_of("trainingInput:\n  workercount: 4\n"),
              AllOf(StartsWith(place(2)), HasSubstr("did you mean workerCount?")));
  EXPECT_THAT(error_of("trainingInput:\n  workerCount: many\n"),
              AllOf(StartsWith(place(2)), HasSubstr("whole number"), HasSubstr("\"many\"")));
  EXPECT_THAT(error_of("trainingInput:\n  args: --x\n"), StartsWith(place(2)));
  EXPECT_THAT(error_of("trainingInput:\n  jobDir: a\n  jobDir: b\n"),
              AllOf(StartsWith(place(3)), HasSubstr("duplicate key")));
  EXPECT_THAT(error_of("trainingInput:\n  scheduling:\n    maxRunningTime: 2h\n"),
              StartsWith(place(3)));
  EXPECT_THAT(error_of("trainingInput:\n  scheduling: {priority: 1001}\n"), StartsWith(place(2)));
  EXPECT_THAT(error_of("predictionInput: {}\n"), StartsWith(place(1)));
  EXPECT_THAT(error_of("- a\n"), HasSubstr("a job must be a map"));
  EXPECT_THAT(error_of(""), HasSubstr("a job must be a map"));
  EXPECT_THAT(error_of("a: 1\n---\nb: 2\n"), HasSubstr("more than one document"));
}

TEST_F(JobFile, WithAliasesThatMultiplyIsRefused) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 7; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) text += (j > 0 ? ", " : "") + before;
    text += "]\n";
  }
  EXPECT_THAT(error_of(text), HasSubstr("more than 20000 values"));
}

TEST_F(JobFile, ThatRefersToItselfIsRefused) {
  for (const char* text :
       {"trainingInput: &x {scaleTier: *x}\n", "trainingInput: &x {args: [*x]}\n",
        "trainingInput: &x {hyperparameters: {params: [1, &y [*x, *y]]}}\n"}) {
    EXPECT_THAT(error_of(text), AllOf(StartsWith(place(1)), HasSubstr("a value that holds it")))
        << text;
  }
}

// yaml-cpp makes empty documents of it without end.
TEST_F(JobFile, ThatBeginsWithACommaIsRefused) {
  EXPECT_THAT(error_of(",labels: {a: b}\n"), HasSubstr("more than one document"));
}

TEST_F(JobFile, MayUseAnAliasTwice) {
  const Submission submission =
      read("labels: {team: &t a, other: *t}\ntrainingInput: {args: [*t, *t]}\n");
  EXPECT_EQ(submission.job.labels.at("other"), "a");
  EXPECT_THAT(submission.job.training_input.args, ElementsAre("a", "a"));
}

TEST_F(JobFile, WithAliasesThatMultiplyATextIsRefused) {
  std::string text = "labels: {a: &a " + std::string(std::size_t{1} << 19, 'x') + "}\nb: [*a";
  for (int i = 1; i < 9; ++i) text += ", *a";
  EXPECT_THAT(error_of(text + "]\n"), HasSubstr("bytes of text"));
}

TEST_F(JobFile, ThatIsNestedTooDeepIsRefused) {
  const std::string nested = std::string(70, '[') + std::string(70, ']');
  EXPECT_THAT(error_of("trainingInput: {hyperparameters: " + nested + "}\n"),
              AllOf(StartsWith(place(1)), HasSubstr("nested deeper than 62")));
  std::string chain = "a0: &a0 [1]\n";
  for (int i = 1; i < 70; ++i) {
    const std::string number = std::to_string(i);
    chain += "a" + number + ": &a" + number + " [*a" + std::to_string(i - 1) + "]\n";
  }
  EXPECT_THAT(error_of(chain), HasSubstr("nested deeper than 62"));
}

TEST_F(JobFile, ThatIsMissingIsNotFound) {
  Submission submission;
  EXPECT_THROW(read_job_file(dir_ / "none.yaml", submission), NotFound);
}

}  // namespace
}  // namespace muster::jobs
