// The parts of a launch, in one process; whole launches are in tests/cli_launch_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>

#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/thread_pool.h"
#include "muster/orchestration/launch/launcher.h"
#include "muster/orchestration/launch/local_cluster.h"
#include "muster/orchestration/launch/merged_log.h"
#include "muster/orchestration/launch/ports.h"
#include "muster/orchestration/launch/scale.h"
#include "muster/orchestration/launch/secret.h"
#include "muster/orchestration/launch/stop.h"
#include "muster/orchestration/launch/training_log.h"
#include "muster/orchestration/process/process_identity.h"
#include "muster/orchestration/process/task_process.h"
#include "muster/platform/cluster/process_environment.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/platform/net/listener.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"
#include "muster/testing/raw_tcp.h"
#include "muster/testing/temp_dir.h"

namespace muster::launch {
namespace {

using muster::testing::eventually;
using muster::testing::message_of;
using muster::testing::RawTcpServer;
using muster::testing::read_bytes;
using muster::testing::TempDir;
using muster::testing::write_bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// ----------------------------------------------------------------------------------------- ports

TEST(Ports, AreAllDifferent) {
  const auto ports = ReservedPorts(20, std::nullopt).numbers();
  EXPECT_EQ(std::set<std::uint16_t>(ports.begin(), ports.end()).size(), 20U);
}

TEST(Ports, AreNotThoseThatConnectionsTake) {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0;
  if (!(file >> first) || first <= 11'000) GTEST_SKIP() << "connections may take any port here";
  const ReservedPorts ports(20, std::nullopt);
  for (const auto port : ports.numbers()) EXPECT_LT(port, first);
}

TEST(Ports, OfARangeSkipWhatIsTaken) {
  const RawTcpServer taken;
  EXPECT_THAT(message_of([&] {
                ReservedPorts(1, PortRange{taken.port(), taken.port()});
              }),
              HasSubstr("only 0 of the 1 ports needed are free"));
}

TEST(Ports, BelongToOneWhoReservesAsLongAsThatLives) {
  std::optional<ReservedPorts> first(std::in_place, 1, std::nullopt);
  const PortRange same{(*first)[0], (*first)[0]};
  EXPECT_THAT(message_of([&] { ReservedPorts(1, same); }),
              HasSubstr("only 0 of the 1 ports needed are free"));
  first.reset();
  EXPECT_EQ(ReservedPorts(1, same)[0], same.first);
}

TEST(Ports, RangesAreRead) {
  EXPECT_EQ(parse_port_range("27182-27190").last, 27190);
  EXPECT_EQ(parse_port_range("80").last, 80);
  for (const char* text : {"", "-", "9-8", "0-5", "1-70000", "a-b", "1-2-3"}) {
    EXPECT_THAT(message_of([&] { parse_port_range(text); }), HasSubstr("FIRST-LAST")) << text;
  }
}

// --------------------------------------------------------------------------------------- cluster

TaskEnvironment environment_of(const LaunchTask& task) {
  return parse_tf_config(std::string_view(task.environment.front()).substr(sizeof("TF_CONFIG")));
}

std::vector<std::string> names_of(const std::vector<LaunchTask>& tasks) {
  std::vector<std::string> names;
  names.reserve(tasks.size());
  for (const LaunchTask& task : tasks) names.push_back(task.name);
  return names;
}

TEST(LocalCluster, IsThatOfTheSeedsScript) {
  const auto tasks = local_cluster({}, {27182, 27183, 27184, 27185});
  EXPECT_THAT(names_of(tasks), ElementsAre("ps", "master", "worker0", "worker1"));
  const TaskEnvironment worker = environment_of(tasks[3]);
  EXPECT_EQ(worker.cluster.to_string(),
            R"({"master": ["localhost:27182"], "ps": ["localhost:27183"], )"
            R"("worker": ["localhost:27184", "localhost:27185"]})");
  EXPECT_EQ(worker.task, (TaskSpec{"worker", 1}));
  EXPECT_EQ(worker.environment, "cloud");
  EXPECT_THAT(worker.warnings, IsEmpty());
}

TEST(LocalCluster, EvaluatorsGoWithAChiefAndHaveNoPort) {
  const LocalClusterOptions options{.chief = "chief", .workers = 0, .ps = 2, .evaluators = 1};
  const auto tasks = local_cluster(options, {1, 2, 3});
  EXPECT_THAT(names_of(tasks), ElementsAre("ps0", "ps1", "chief", "evaluator"));
  EXPECT_TRUE(environment_of(tasks[3]).is_evaluator());
  EXPECT_EQ(tasks[3].address, "");
  EXPECT_THAT(message_of([] { ports_needed({.evaluators = 1}); }), HasSubstr("call it \"chief\""));
  EXPECT_THAT(message_of([] { ports_needed({.workers = -1}); }), HasSubstr("number of workers"));
}

TEST(LocalCluster, DealsGpusInTurnAndNoneToPs) {
  const auto tasks = local_cluster({.gpus = std::vector<std::string>{"0", "1"}}, {1, 2, 3, 4});
  std::vector<std::string> seen;
  seen.reserve(tasks.size());
  for (const LaunchTask& task : tasks) seen.push_back(task.environment.back());
  EXPECT_THAT(seen, ElementsAre("CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=0",
                                "CUDA_VISIBLE_DEVICES=1", "CUDA_VISIBLE_DEVICES=0"));
}

TEST(LocalCluster, TasksThatShareAGpuAreHostsOfTheirOwnToNccl) {
  const auto has_host = [](const std::optional<std::vector<std::string>>& gpus) {
    std::vector<std::string> named;
    for (const LaunchTask& task : local_cluster({.gpus = gpus}, {1, 2, 3, 4})) {
      const bool is_named =
          std::ranges::find(task.environment, "NCCL_HOSTID=" + task.name) != task.environment.end();
      if (is_named) named.push_back(task.name);
    }
    return named;
  };
  using Gpus = std::vector<std::string>;
  EXPECT_THAT(has_host(std::nullopt), ElementsAre("master", "worker0", "worker1"));
  EXPECT_THAT(has_host(Gpus{"0", "1"}), ElementsAre("master", "worker0", "worker1"));
  EXPECT_THAT(has_host(Gpus{"0", "1", "2"}), IsEmpty());
  EXPECT_THAT(has_host(Gpus{}), IsEmpty());
}

TEST(LocalCluster, ASingleTaskIsToldOfNoCluster) {
  const auto tasks = local_cluster({.is_single = true, .job_json = R"({"job_name": "m"})"}, {});
  ASSERT_EQ(tasks.size(), 1U);
  EXPECT_TRUE(environment_of(tasks[0]).is_alone());
  EXPECT_EQ(environment_of(tasks[0]).job_json, R"({"job_name":"m"})");
}

// ------------------------------------------------------------------------------------ merged log

// A pipe that is read up to its end.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_), 0); }
  ~Pipe() { ::close(ends_[0]); }
  int in() const { return ends_[1]; }
  std::string read_all() {
    ::close(ends_[1]);
    std::string text;
    char chunk[4096];
    for (ssize_t n = 0; (n = ::read(ends_[0], chunk, sizeof(chunk))) > 0;) {
      text.append(chunk, static_cast<std::size_t>(n));
    }
    return text;
  }

 private:
  int ends_[2];
};

TEST(MergedLog, PrintsWholeLinesOnlyAndTheRestAtTheEnd) {
  const TempDir dir;
  Pipe pipe;
  MergedLog merged(pipe.in(), /*colours=*/false);
  merged.follow("worker:0", dir / "a");
  merged.follow("ps:0", dir / "b");
  merged.poll();  // Neither is there yet.
  write_bytes(dir / "a", "one\ntw");
  write_bytes(dir / "b", "x\n");
  merged.poll();
  write_bytes(dir / "a", "one\ntwo\nthr");
  merged.poll();
  merged.finish();
  EXPECT_EQ(pipe.read_all(), "[worker:0] one\n[ps:0] x\n[worker:0] two\n[worker:0] thr\n");
}

TEST(MergedLog, NamesTheTaskOnceInLinesOfMustersLogger) {
  const TempDir dir;
  Pipe pipe;
  MergedLog merged(pipe.in(), false);
  merged.follow("worker:1", dir / "a");
  write_bytes(dir / "a",
              "2026-03-01T10:04:11.532 I worker:1 saved step=4\n"
              "2026-03-01T10:04:11.532 I worker:10 is another\n"
              "worker:1 is what a program says\n");
  merged.finish();
  EXPECT_EQ(pipe.read_all(),
            "[worker:1] 2026-03-01T10:04:11.532 I saved step=4\n"
            "[worker:1] 2026-03-01T10:04:11.532 I worker:10 is another\n"
            "[worker:1] worker:1 is what a program says\n");
}

TEST(MergedLog, RemembersTheLastResults) {
  const TempDir dir;
  Pipe pipe;
  MergedLog merged(pipe.in(), false);
  merged.follow("master:0", dir / "a");
  write_bytes(dir / "a",
              "t I master:0 Saving dict for global step 1: accuracy = 0.5\n"
              "t I master:0 Saving dict for global step 2: accuracy = 0.75\n"
              "t I master:0 Loss for final step: 0.25.\n");
  merged.finish();
  EXPECT_EQ(merged.final_loss(), "Loss for final step: 0.25.");
  EXPECT_EQ(merged.last_evaluation(), "2: accuracy = 0.75");
  pipe.read_all();
}

TEST(Secret, IsLongAndDrawnAnew) {
  const std::string secret = draw_secret();
  EXPECT_EQ(secret.size(), 64U);
  EXPECT_NE(secret, draw_secret());
}

TEST(MergedLog, SeesThatAPortWasTaken) {
  const TempDir dir;
  Pipe pipe;
  MergedLog merged(pipe.in(), false);
  const RawTcpServer taken;
  const std::string own = message_of(
      [&] { net::Listener(taken.address(), {.task = "worker:1", .run_id = "a"}, [](auto) {}); });
  merged.follow("worker:0", dir / "a");
  merged.follow("worker:1", dir / "b");
  write_bytes(dir / "a", "bind: Address already in use\n");
  write_bytes(dir / "b", own + "\n");
  EXPECT_FALSE(merged.saw_port_in_use(0));
  merged.poll();
  EXPECT_TRUE(merged.saw_port_in_use(0));
  EXPECT_TRUE(merged.saw_port_in_use(1)) << own;
  merged.forget(0);
  EXPECT_FALSE(merged.saw_port_in_use(0));
  pipe.read_all();
}

// ---------------------------------------------------------------------------------- training log

TEST(TrainingLog, WritesTheSeedsEntryWithWhatTheFlagsSay) {
  EXPECT_EQ(to_markdown({.job = "local-census_20260301_10_04_11",
                         .command = {"./census", "--learning_rate=0.1", "--num-epochs", "3",
                                     "--train-batch-size", "40", "--eval-batch-size=50"},
                         .hypothesis = "faster"}),
            "---\n## local-census_20260301_10_04_11\nLearning Rate: 0.1\nEpochs: 3\n"
            "Batch Size (train/eval): 40/ 50\n"
            "Command: `./census --learning_rate=0.1 --num-epochs 3 --train-batch-size 40 "
            "--eval-batch-size=50`\n### Hypothesis\nfaster\n### Results\n");
}

TEST(TrainingLog, AddsTheOutcomeUnlessSomebodyWroteMeanwhile) {
  const TempDir dir;
  TrainingLog first(dir / "log.md", {.job = "a"});
  first.add_outcome("done");
  EXPECT_THAT(read_bytes(dir / "log.md"), ::testing::EndsWith("### Results\ndone\n"));
  TrainingLog second(dir / "log.md", {.job = "b"});
  write_bytes(dir / "log.md", read_bytes(dir / "log.md") + "my own words\n");
  second.add_outcome("done");
  EXPECT_THAT(read_bytes(dir / "log.md"), ::testing::EndsWith("my own words\n"));
}

// --------------------------------------------------------------------------------- whole options

TEST(RestartPolicy, IsRead) {
  EXPECT_EQ(parse_restart_policy("never").most_restarts, 0);
  EXPECT_EQ(parse_restart_policy("on-failure").most_restarts, 3);
  EXPECT_EQ(parse_restart_policy("on-failure:7").most_restarts, 7);
  for (const char* text : {"", "always", "on-failure:", "on-failure:x", "on-failure:-1"}) {
    EXPECT_THAT(message_of([&] { parse_restart_policy(text); }), HasSubstr("on-failure:N")) << text;
  }
}

TEST(Binding, IsRead) {
  EXPECT_EQ(parse_binding("auto"), Binding::kAuto);
  EXPECT_EQ(parse_binding("none"), Binding::kNone);
  EXPECT_EQ(parse_binding("processor"), Binding::kProcessor);
  EXPECT_THAT(message_of([] { parse_binding("core"); }), HasSubstr("none or processor: core"));
}

TEST(Binding, GivesEachTaskAProcessorWhereThatPays) {
  const std::vector<int> twelve{0, 1, 2, 3, 4, 5, 16, 17, 18, 19, 20, 21};
  for (const std::size_t tasks : {1U, 6U, 7U}) {
    EXPECT_TRUE(processors_for(Binding::kAuto, tasks, twelve).empty()) << tasks;
  }
  EXPECT_EQ(processors_for(Binding::kAuto, 12, twelve), twelve);
  EXPECT_EQ(processors_for(Binding::kAuto, 8, twelve),
            std::vector<int>(twelve.begin(), twelve.begin() + 8));
  EXPECT_TRUE(processors_for(Binding::kAuto, 4, {0, 1, 2, 3}).empty());
  EXPECT_TRUE(processors_for(Binding::kNone, 12, twelve).empty());
}

TEST(Binding, PutsNeighboursOnOneProcessorWhereThereAreMoreTasks) {
  EXPECT_EQ(processors_for(Binding::kAuto, 8, {2, 3}), (std::vector<int>{2, 2, 2, 2, 3, 3, 3, 3}));
  EXPECT_EQ(processors_for(Binding::kProcessor, 5, {2, 3}), (std::vector<int>{2, 2, 2, 3, 3}));
  EXPECT_THROW(processors_for(Binding::kProcessor, 5, {}), FailedPrecondition);
  EXPECT_TRUE(processors_for(Binding::kAuto, 8, {}).empty());
}

TEST(Binding, HoldsForTheProcess) {
  const TempDir dir;
  const int last = ThreadPool::allowed_processors().back();
  const pid_t process =
      process::start_process({.command = {"grep", "Cpus_allowed_list", "/proc/self/status"},
                              .log = dir / "log",
                              .processor = last});
  while (!process::reap(process)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_THAT(read_bytes(dir / "log"), HasSubstr(fmt::format("list:\t{}\n", last)));
}

TEST(DryRun, ShowsWhereTasksAreBound) {
  const int first = ThreadPool::allowed_processors().front();
  const std::string text = dry_run({.cluster = {.workers = 0, .ps = 0},
                                    .binding = Binding::kProcessor,
                                    .command = {"./a"},
                                    .start_port = std::uint16_t{27182}});
  EXPECT_THAT(text, HasSubstr(fmt::format("taskset -c {} ./a", first)));
  EXPECT_THAT(text, HasSubstr(fmt::format("MUSTER_HOST_PROCESSORS={} ",
                                          ThreadPool::allowed_processors().size())));
  // The work of a ps is another.
  EXPECT_THAT(
      dry_run(
          {.cluster = {.workers = 1, .ps = 1}, .binding = Binding::kProcessor, .command = {"./a"}}),
      ::testing::Not(HasSubstr("taskset")));
}

TEST(DryRun, PrintsLinesForAShell) {
  const std::string text = dry_run({.cluster = {.workers = 0, .ps = 0},
                                    .command = {"./a b", "it's"},
                                    .start_port = std::uint16_t{27182}});
  EXPECT_EQ(text,
            "export MUSTER_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')\n"
            "# master:0\nTF_CONFIG='{\"cluster\":{\"master\":[\"localhost:27182\"]},"
            "\"task\":{\"type\":\"master\",\"index\":0},\"environment\":\"cloud\"}' "
            "'./a b' 'it'\\''s' > runlogs/master.log 2>&1 &\n");
  EXPECT_THAT(message_of([] { dry_run({.command = {"a"}, .start_port = std::uint16_t{65534}}); }),
              HasSubstr("go beyond 65535"));
}

// ----------------------------------------------------------------------------------------- scale

TEST(WorkerRange, IsRead) {
  EXPECT_FALSE(parse_worker_range("2").is_elastic());
  EXPECT_EQ(parse_worker_range("2").most, 2);
  EXPECT_TRUE(parse_worker_range("2:8").is_elastic());
  EXPECT_EQ(parse_worker_range("2:8").least, 2);
  EXPECT_EQ(parse_worker_range("2:8").most, 8);
  for (const char* text : {"", ":", "8:2", "a", "2:", ":3", "-1:2", "1:2:3"}) {
    EXPECT_THAT(message_of([&] { parse_worker_range(text); }), HasSubstr("LEAST:MOST")) << text;
  }
}

TEST(Scale, AsksTheLaunchThatUsesTheFolder) {
  const TempDir dir;
  const auto scale_to = [&](std::int64_t workers) {
    return message_of([&] { scale({.log_dir = dir.path(), .workers = workers}); });
  };
  EXPECT_THAT(scale_to(3), HasSubstr("no launch uses"));
  process::write_pid_file(dir / "launch.pid", *process::identify(::getpid()));
  EXPECT_THAT(scale_to(3), HasSubstr("fixed number of workers"));
  ScaleRequests requests(dir.path(), {2, 8});
  EXPECT_THAT(scale_to(9), HasSubstr("may have 2 to 8 workers: 9"));
  const std::jthread asking([&] { scale({.log_dir = dir.path(), .workers = 3}); });
  std::optional<std::int64_t> asked;
  EXPECT_TRUE(eventually([&] { return (asked = requests.next()).has_value(); }));
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(requests.next(), std::nullopt);
}

TEST(Scale, PassesOverARequestThatMakesNoSense) {
  const TempDir dir;
  ScaleRequests requests(dir.path(), {2, 8});
  for (const char* text : {"", "x\n", "1\n", "9\n"}) {
    write_bytes(dir / "launch.scale", text);
    EXPECT_EQ(requests.next(), std::nullopt) << text;
  }
}

TEST(Stop, EndsTasksThatOutlivedTheirLauncherPsLast) {
  const TempDir dir;
  const std::string script =
      "trap 'echo $0 >> $1; exit 0' TERM; echo > $1.$0; while :; do sleep 0.01; done";
  for (const char* name : {"ps0", "worker0"}) {
    const pid_t process = process::start_process(
        {.command = {"sh", "-c", script, name, dir / "order"}, .log = dir / "log"});
    process::write_pid_file(dir / (std::string(name) + ".pid"), *process::identify(process));
    ASSERT_TRUE(
        eventually([&] { return std::filesystem::exists(dir / (std::string("order.") + name)); }));
  }
  EXPECT_THAT(stop({.log_dir = dir.path()}), ElementsAre(StartsWith("stopped worker0 (process "),
                                                         StartsWith("stopped ps0 (process ")));
  EXPECT_EQ(read_bytes(dir / "order"), "worker0\nps0\n");
}

TEST(Stop, LeavesAProcessAloneThatOnlyHasTheNumber) {
  const TempDir dir;
  process::ProcessIdentity other = *process::identify(::getpid());
  other.start_ticks += 1;
  process::write_pid_file(dir / "worker0.pid", other);
  EXPECT_THAT(stop({.log_dir = dir.path()}), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(dir / "worker0.pid"));
  EXPECT_THAT(message_of([&] { stop({.log_dir = dir / "none"}); }), HasSubstr("no folder"));
}

}  // namespace
}  // namespace muster::launch
