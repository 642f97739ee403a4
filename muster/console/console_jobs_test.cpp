// Tests of the requests of pages about jobs, studies and models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/console/console.h"
#include "muster/console/listening_page_internal.h"
#include "muster/orchestration/jobs/job_store.h"
#include "muster/orchestration/tuning/state_checksum.h"
#include "muster/serving/codec/model_folder.h"
#include "muster/testing/eventually.h"
#include "muster/testing/temp_dir.h"

namespace muster::console {
namespace {

using nlohmann::json;
using serving::HttpResponse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConsoleJobsTest : public ::testing::Test {
 protected:
  ConsoleJobsTest() { add_job("census", jobs::State::kRunning); }

  void add_job(const std::string& name, jobs::State state) {
    jobs::Job job{.job_id = name, .state = state, .create_time = std::chrono::system_clock::now()};
    job.local.command = {"/bin/true", "--train-steps", "100"};
    job.local.attempts = 1;
    store_.create(job, {"SECRET=hidden"});
    std::filesystem::create_directories(store_.folder_of(name) / "attempts" / "1");
  }
  void add_lines(const std::string& text) {
    const auto file = store_.folder_of("census") / "attempts" / "1" / "master0.log";
    const std::string before = std::filesystem::exists(file) ? testing::read_bytes(file) : "";
    testing::write_bytes(file, before + text);
  }
  void open(bool allow_changes) {
    ConsoleOptions options;
    options.log_folders = {runs_.path()};
    options.jobs = {
        .folder = store_.folder(),
        .supervise_command = {"/bin/sh", "-c", "echo x >> " + (runs_ / "starts").string()}};
    options.models = {
        .servers = {"here:8501"},
        .call = [this](const std::string& server, const std::string& method,
                       const std::string& path, const std::string& body) {
          calls_.push_back(server + " " + method + " " + path + " " + body);
          if (path == "/v2/repository/index") {
            return ServerReply{200, R"([{"name":"m","version":"3","state":"READY","reason":""}])"};
          }
          if (path.starts_with("/nodes?")) return ServerReply{nodes_status_, R"({"nodes":[]})"};
          return ServerReply{200, R"({"model_stats":[]})"};
        }};
    options.models_dir = runs_ / "models";
    options.guard.allow_changes = allow_changes;
    console_.emplace(std::move(options));
  }
  HttpResponse ask(const std::string& method, const std::string& target,
                   const std::string& body = "", bool with_secret = true) {
    serving::Headers headers{{"Host", "localhost"}};
    if (with_secret) headers.emplace_back(kPageSecretHeader, secret());
    return console_->handle({.method = method,
                             .target = target,
                             .headers = std::move(headers),
                             .body = body,
                             .is_from_this_host = true});
  }
  std::string secret() {
    const HttpResponse answer = console_->handle({.method = "GET",
                                                  .target = "/api/session",
                                                  .headers = {{"Host", "localhost"}},
                                                  .is_from_this_host = true});
    return json::parse(answer.body)["pageSecret"];
  }
  json data(const std::string& target) {
    const HttpResponse answer = ask("GET", target);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body);
  }

  // How often a supervisor was started.
  std::size_t starts() const {
    const auto file = runs_ / "starts";
    return std::filesystem::exists(file) ? testing::read_bytes(file).size() / 2 : 0;
  }

  testing::TempDir jobs_;
  testing::TempDir runs_;
  jobs::JobStore store_{std::filesystem::canonical(jobs_.path())};
  std::vector<std::string> calls_;
  int nodes_status_ = 200;
  std::optional<Console> console_;
};

TEST_F(ConsoleJobsTest, ListsAndShowsJobsWithoutTheirEnvironment) {
  open(false);
  const json jobs = data("/api/jobs")["jobs"];
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0]["name"], "census");
  EXPECT_EQ(jobs[0]["state"], "RUNNING");
  const HttpResponse answer = ask("GET", "/api/jobs/census");
  EXPECT_THAT(answer.body, HasSubstr("--train-steps"));
  EXPECT_THAT(answer.body, ::testing::Not(HasSubstr("hidden")));
}

TEST_F(ConsoleJobsTest, NamesThatLeadOutAreRefused) {
  open(true);
  testing::write_bytes(runs_ / "job.json", "{}");
  for (const char* name : {"..", "%2e%2e", "..%2fcensus", "%2fetc", "none", "a%00b", ".submit-x"}) {
    EXPECT_GE(ask("GET", fmt::format("/api/jobs/{}", name)).status, 400) << name;
    EXPECT_GE(ask("GET", fmt::format("/api/jobs/{}/log", name)).status, 400) << name;
    EXPECT_GE(ask("POST", fmt::format("/api/jobs/{}/cancel", name)).status, 400) << name;
  }
}

TEST_F(ConsoleJobsTest, ADamagedJobHidesNoOther) {
  add_job("broken", jobs::State::kQueued);
  testing::write_bytes(store_.folder_of("broken") / "job.json", "{\"jobId\": [[[");
  open(false);
  EXPECT_EQ(data("/api/jobs")["jobs"].size(), 1U);
  EXPECT_GE(ask("GET", "/api/jobs/broken").status, 400);
}

TEST_F(ConsoleJobsTest, LinesAreFollowedUntilTheJobIsOver) {
  add_lines("first line\n");
  open(false);
  HttpResponse answer = ask("GET", "/api/jobs/census/log");
  ASSERT_TRUE(answer.stream);
  const auto page = std::make_shared<ListeningPage>();
  answer.stream(page);
  EXPECT_TRUE(page->has("first line"));
  add_lines("second line\n");
  EXPECT_TRUE(testing::eventually([&] { return page->has("second line"); }));
  store_.change("census", [](jobs::Job& job) { job.state = jobs::State::kSucceeded; });
  EXPECT_TRUE(testing::eventually([&] { return page->has("SUCCEEDED"); }));
  EXPECT_TRUE(testing::eventually([&] { return page->is_closed(); }));
}

TEST_F(ConsoleJobsTest, AFolderOfJobsMayComeLater) {
  store_ = jobs::JobStore(store_.folder() / "later" / "jobs");
  open(false);
  EXPECT_EQ(data("/api/jobs")["jobs"].size(), 0U);
  HttpResponse answer = ask("GET", "/api/live");
  const auto page = std::make_shared<ListeningPage>();
  answer.stream(page);
  add_job("first", jobs::State::kRunning);
  EXPECT_TRUE(testing::eventually([&] { return page->has("event: jobs"); }));
  EXPECT_TRUE(testing::eventually([&] {
    store_.change("first", [](jobs::Job& job) { job.labels["try"] += "x"; });
    return page->has("[\"first\"]");
  }));
}

TEST_F(ConsoleJobsTest, LinesThatCameBeforeTheirFolderWasWatchedAreFollowed) {
  store_ = jobs::JobStore(store_.folder() / "later" / "jobs");
  open(false);
  add_job("census", jobs::State::kRunning);
  const auto page = std::make_shared<ListeningPage>();
  ask("GET", "/api/jobs/census/log").stream(page);
  add_lines("the only line\n");
  EXPECT_TRUE(testing::eventually([&] { return page->has("the only line"); }));
}

TEST_F(ConsoleJobsTest, ChangesNeedTheFlagAndTheSecret) {
  open(false);
  EXPECT_EQ(ask("POST", "/api/jobs/census/cancel").status, 403);
  EXPECT_EQ(ask("POST", "/api/jobs/census/resubmit").status, 403);
  EXPECT_EQ(ask("POST", "/api/models/0/m/3/default").status, 403);
  testing::write_bytes(runs_ / "muster.json", "{}");
  EXPECT_EQ(ask("POST", "/api/run/notes?id=x", R"({"name": "a"})").status, 403);
  open(true);
  EXPECT_EQ(ask("POST", "/api/run/notes?id=x", R"({"name": "a"})", /*with_secret=*/false).status,
            403);
  EXPECT_EQ(ask("POST", "/api/jobs/census/cancel", "", /*with_secret=*/false).status, 403);
  EXPECT_EQ(ask("POST", "/api/models/0/m/3/predict", "{}", /*with_secret=*/false).status, 403);
  EXPECT_EQ(store_.read("census").state, jobs::State::kRunning);
  EXPECT_THAT(store_.names(), ElementsAre("census"));
  EXPECT_EQ(starts(), 0U);
  EXPECT_TRUE(calls_.empty());
}

TEST_F(ConsoleJobsTest, NotesAreKeptBesideTheRunAndNowhereElse) {
  std::filesystem::create_directories(runs_ / "census");
  testing::write_bytes(runs_ / "census" / "muster.json",
                       R"({"runs": [{"arguments": ["--train-steps", "5"], "seed": 3}]})");
  testing::write_bytes(runs_ / "census" / "model.ckpt-5.index", "12");
  open(true);
  const std::string notes = R"({"name": "<b>best</b>", "tags": ["paper"], "isPinned": true})";
  EXPECT_EQ(ask("POST", "/api/run/notes?id=census", notes).status, 200);
  EXPECT_TRUE(std::filesystem::exists(runs_ / "census" / "run_notes.json"));
  EXPECT_EQ(data("/api/runs")["runs"][0]["notes"]["tags"][0], "paper");
  const json run = data("/api/run?id=census");
  EXPECT_EQ(run["notes"]["name"], "<b>best</b>");
  EXPECT_EQ(run["record"]["arguments"][1], "5");
  EXPECT_EQ(run["files"]["checkpoints"][0]["step"], 5);
  EXPECT_EQ(ask("POST", "/api/run/notes?id=census", R"({"tags": 1})").status, 400);
  for (const char* id : {"..", "../census", "none", "", "/etc"}) {
    EXPECT_EQ(ask("POST", fmt::format("/api/run/notes?id={}", id), notes).status, 404) << id;
    EXPECT_EQ(ask("GET", fmt::format("/api/run?id={}", id)).status, 404) << id;
  }
}

TEST_F(ConsoleJobsTest, CancelsAndSubmitsAgain) {
  open(true);
  EXPECT_EQ(ask("POST", "/api/jobs/census/cancel").status, 200);
  EXPECT_NE(store_.read("census").state, jobs::State::kRunning);
  const HttpResponse answer = ask("POST", "/api/jobs/census/resubmit");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["name"], "census_2");
  const jobs::Job again = store_.read("census_2");
  EXPECT_EQ(again.state, jobs::State::kQueued);
  EXPECT_EQ(again.local.attempts, 0);
  EXPECT_EQ(again.local.command, store_.read("census").local.command);
  EXPECT_THAT(store_.environment_of("census_2"), ElementsAre("SECRET=hidden"));
  EXPECT_TRUE(testing::eventually([&] { return starts() == 2; }));
  EXPECT_EQ(json::parse(ask("POST", "/api/jobs/census_2/resubmit").body)["name"], "census_3");
}

TEST_F(ConsoleJobsTest, SubmitsAgainWithOtherArgumentsInTheSameProgram) {
  store_.change("census", [](jobs::Job& job) {
    job.state = jobs::State::kSucceeded;
    job.training_input.args = {"--train-steps", "5"};
    job.training_input.job_dir = "runs/a";
    job.local.command = {"/bin/census", "--train-steps", "5", "--job-dir", "runs/a"};
    job.local.notices = {"https://chat.example/secret"};
  });
  open(true);
  const auto again = [&](const std::string& body) {
    return ask("POST", "/api/jobs/census/resubmit", body);
  };
  const HttpResponse answer =
      again(R"({"args": ["--train-steps", "9", "--seed=1"], "jobDir": "runs/b"})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const jobs::Job made = store_.read("census_2");
  EXPECT_THAT(made.local.command,
              ElementsAre("/bin/census", "--train-steps", "9", "--seed=1", "--job-dir", "runs/b"));
  EXPECT_EQ(made.training_input.job_dir, "runs/b");
  EXPECT_EQ(made.local.notices, store_.read("census").local.notices);
  EXPECT_THAT(ask("GET", "/api/jobs/census").body, ::testing::Not(HasSubstr("secret")));
  EXPECT_EQ(again(R"({"args": "--x"})").status, 400);
  EXPECT_EQ(again(R"({"args": [1]})").status, 400);
  EXPECT_EQ(again(R"({"jobDir": ""})").status, 400);
  EXPECT_EQ(again("[1]").status, 400);
}

class ConsoleStudyTest : public ConsoleJobsTest {
 protected:
  ConsoleStudyTest() { write_study("/bin/train"); }

  void write_study(const std::string& program) {
    std::filesystem::create_directories(runs_ / "tuned" / "study");
    const json block{
        {"goal", "MINIMIZE"},
        {"hyperparameterMetricTag", "loss"},
        {"maxTrials", 4},
        {"params",
         {{{"parameterName", "x"}, {"type", "DOUBLE"}, {"minValue", 0}, {"maxValue", 1}}}}};
    testing::write_bytes(runs_ / "tuned" / "study" / "study.json",
                         json{{"hyperparameters", block},
                              {"command", {program, "--steps", "5"}},
                              {"seed", 7},
                              {"workingDirectory", "/work"}}
                             .dump());
  }
  static int max_trials_of(const jobs::Job& job) {
    const auto flag = std::ranges::find(job.local.command, "--hyperparameters");
    return json::parse(*std::next(flag))["maxTrials"];
  }
};

TEST_F(ConsoleStudyTest, IsExtendedByAJobThatRunsItsCommand) {
  open(true);
  const json study = data("/api/study?id=tuned");
  EXPECT_EQ(study["isRunning"], false);
  EXPECT_EQ(study["command"], json({"/bin/train", "--steps", "5"}));
  const HttpResponse answer = ask("POST", "/api/study/extend?id=tuned", R"({"trials": 6})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["job"], "study_tuned");
  const jobs::Job job = store_.read("study_tuned");
  EXPECT_EQ(max_trials_of(job), 10);
  EXPECT_EQ(job.local.working_directory, "/work");
  EXPECT_EQ(std::vector(job.local.command.end() - 6, job.local.command.end()),
            (std::vector<std::string>{"--seed", "7", "--", "/bin/train", "--steps", "5"}));
  // It waits for its turn: the study is as good as running.
  EXPECT_EQ(ask("POST", "/api/study/extend?id=tuned", R"({"trials": 6})").status, 400);
  EXPECT_EQ(ask("POST", "/api/study/stop?id=tuned").status, 200);
  EXPECT_TRUE(is_final(store_.read("study_tuned").state));
  EXPECT_EQ(ask("POST", "/api/study/stop?id=tuned").status, 400);
  // The job of a study is submitted again, with the environment that it had.
  store_.change("study_tuned", [](jobs::Job& changed) { changed.local.most_restarts = 9; });
  EXPECT_EQ(json::parse(ask("POST", "/api/study/extend?id=tuned", R"({"trials": 1})").body)["job"],
            "study_tuned_2");
  EXPECT_EQ(store_.read("study_tuned_2").local.most_restarts, 9);
  EXPECT_EQ(max_trials_of(store_.read("study_tuned_2")), 5);
}

TEST_F(ConsoleStudyTest, IsChangedWithTheSecretAndBySenseAlone) {
  open(false);
  EXPECT_EQ(ask("POST", "/api/study/extend?id=tuned", R"({"trials": 6})").status, 403);
  EXPECT_EQ(ask("POST", "/api/study/stop?id=tuned").status, 403);
  open(true);
  EXPECT_EQ(ask("POST", "/api/study/stop?id=tuned", "", /*with_secret=*/false).status, 403);
  for (const char* body : {"", "[]", R"({"trials": 0})", R"({"trials": 1001})",
                           R"({"trials": "1"})", R"({"trials": 1.5})"}) {
    EXPECT_EQ(ask("POST", "/api/study/extend?id=tuned", body).status, 400) << body;
  }
  for (const char* id : {"..", "tuned/..", "none", "", "/etc"}) {
    EXPECT_EQ(ask("POST", fmt::format("/api/study/extend?id={}", id), R"({"trials": 1})").status,
              404)
        << id;
  }
  EXPECT_EQ(ask("POST", "/api/study/remove?id=tuned").status, 404);
  // A study behind a link is not run.
  std::filesystem::rename(runs_ / "tuned" / "study" / "study.json", jobs_ / "study.json");
  std::filesystem::create_symlink(jobs_ / "study.json", runs_ / "tuned" / "study" / "study.json");
  EXPECT_GE(ask("POST", "/api/study/extend?id=tuned", R"({"trials": 1})").status, 400);
  EXPECT_THAT(store_.names(), ElementsAre("census"));
}

TEST_F(ConsoleJobsTest, OrdersTheQueueByPriority) {
  open(true);
  EXPECT_EQ(ask("POST", "/api/jobs/census/priority", R"({"priority": 5})").status, 400);
  store_.change("census", [](jobs::Job& job) { job.state = jobs::State::kQueued; });
  EXPECT_EQ(ask("POST", "/api/jobs/census/priority", R"({"priority": 5})").status, 200);
  EXPECT_EQ(store_.read("census").training_input.priority, 5);
  for (const char* body :
       {R"({"priority": -1})", R"({"priority": 1001})", R"({"priority": "5"})"}) {
    EXPECT_EQ(ask("POST", "/api/jobs/census/priority", body).status, 400) << body;
  }
}

TEST_F(ConsoleJobsTest, VersionsOfModelsAreMovedToStagesWithAReason) {
  std::filesystem::create_directories(runs_ / "a" / "export" / "final" / "1");
  testing::write_bytes(runs_ / "a" / "muster.json",
                       R"({"runs": [{"seed": 3, "metrics": {"loss": 0.5}}], "version": 1})");
  testing::write_bytes(runs_ / "a" / "export" / "final" / "1" / "saved_model.pb", "m");
  serving::ModelFolder models(runs_ / "models");
  models.create_model("census", "");
  models.create_version("census", "v1", runs_ / "a" / "export" / "final", "");
  open(true);
  const json version = data("/api/registry")["models"][0]["versions"][0];
  EXPECT_EQ(version["stage"], "none");
  EXPECT_EQ(version["run"], "a");
  EXPECT_EQ(version["lineage"]["metrics"]["loss"], 0.5);
  const std::string place = "/api/registry/census/v1/stage";
  EXPECT_EQ(ask("POST", place, R"({"stage": "production"})").status, 400);
  EXPECT_EQ(ask("POST", place, R"({"stage": "best", "reason": "x"})").status, 400);
  EXPECT_EQ(ask("POST", place, R"({"stage": "production", "reason": "best AUC"})").status, 200);
  EXPECT_EQ(models.version("census", "v1").stage, "production");
  EXPECT_EQ(
      ask("POST", "/api/registry/..%2Fx/v1/stage", R"({"stage": "staging", "reason": "x"})").status,
      400);
  open(false);
  EXPECT_EQ(ask("POST", place, R"({"stage": "archived", "reason": "x"})").status, 403);
}

TEST_F(ConsoleJobsTest, StudiesAreFoundByNameAlone) {
  std::filesystem::create_directories(runs_ / "tuned" / "study");
  testing::write_bytes(runs_ / "tuned" / "study" / "study.json", R"({
    "hyperparameters": {"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 4, "params": [
      {"parameterName": "rate", "type": "DOUBLE", "minValue": 0.001, "maxValue": 1, "scaleType": "UNIT_LOG_SCALE"}]},
    "command": ["/bin/true"], "seed": 0})");
  testing::write_bytes(runs_ / "tuned" / "study" / "1.json",
                       tuning::with_checksum(R"({"trialId": "1", "state": "SUCCEEDED",
    "hyperparameters": {"rate": "0.1"}, "finalMetric": {"trainingStep": "10", "objectiveValue": 0.5},
    "allMetrics": [{"trainingStep": "10", "objectiveValue": 0.5}], "otherMetrics": {},
    "startTime": 1.0, "endTime": 2.0})"));
  std::filesystem::create_directories(runs_ / "broken" / "study");
  testing::write_bytes(runs_ / "broken" / "study" / "study.json", "[[[");
  std::filesystem::create_directories(runs_ / "unread" / "study");
  std::filesystem::copy(runs_ / "tuned" / "study" / "study.json", runs_ / "unread" / "study");
  testing::write_bytes(runs_ / "unread" / "study" / "1.json", tuning::with_checksum(R"({"a": 1})"));
  open(false);
  const json studies = data("/api/studies")["studies"];
  ASSERT_EQ(studies.size(), 3U) << studies;
  EXPECT_TRUE(studies[0].contains("problem"));
  EXPECT_EQ(studies[1]["id"], "tuned");
  EXPECT_EQ(studies[1]["best"]["value"], 0.5);
  EXPECT_THAT(studies[2]["problem"].get<std::string>(), HasSubstr("study/1.json: no trial"));
  const json trial = data("/api/study?id=tuned")["trials"][0];
  EXPECT_EQ(trial["hyperparameters"]["rate"], "0.1");
  EXPECT_EQ(trial["run"], "tuned/1");
  for (const char* id : {"..", "../tuned", "none", ""}) {
    EXPECT_EQ(ask("GET", fmt::format("/api/study?id={}", id)).status, 404) << id;
  }
}

TEST_F(ConsoleJobsTest, NodesAreThoseOfServersThatHaveSome) {
  open(false);
  EXPECT_EQ(data("/api/models/0/nodes?since=12.5"), json({{"nodes", json::array()}}));
  EXPECT_THAT(calls_, ElementsAre("here:8501 GET /nodes?since=12.5 "));
  nodes_status_ = 404;
  EXPECT_EQ(data("/api/models/0/nodes"), json::object());
  EXPECT_EQ(ask("GET", "/api/models/0/nodes?since=1%0D").status, 400);
  EXPECT_EQ(ask("GET", "/api/models/1/nodes").status, 404);
}

TEST_F(ConsoleJobsTest, ServersAreNamedByTheirPlaceAlone) {
  open(false);
  EXPECT_EQ(data("/api/models")["servers"][0]["models"][0]["name"], "m");
  calls_.clear();
  for (const char* target :
       {"/api/models/1/m/3", "/api/models/evil.example:80/m/3", "/api/models/-1/m/3"}) {
    EXPECT_EQ(ask("GET", target).status, 404) << target;
  }
  EXPECT_EQ(ask("GET", "/api/models/0/m/x").status, 400);
  EXPECT_TRUE(calls_.empty());
  EXPECT_EQ(ask("GET", "/api/models/0/a%2F..%2Fb%20%0D%0A/3").status, 200);
  EXPECT_THAT(calls_,
              ElementsAre("here:8501 GET /v1/models/a%2F%2E%2E%2Fb%20%0D%0A/versions/3/metadata "));
  calls_.clear();
  const HttpResponse answer = ask("POST", "/api/models/0/m/3/predict", R"({"instances":[1]})");
  EXPECT_EQ(json::parse(answer.body)["status"], 200);
  EXPECT_THAT(calls_,
              ElementsAre(R"(here:8501 POST /v1/models/m/versions/3:predict {"instances":[1]})"));
}

}  // namespace
}  // namespace muster::console
