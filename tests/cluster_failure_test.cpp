// Faults of a cluster's tasks: each run ends with the weights of one process, or with an error that
// names the task.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/checkpoint/checkpoint.h"
#include "muster/orchestration/launch/ports.h"
#include "muster/testing/eventually.h"
#include "muster/testing/process.h"
#include "muster/testing/stand_in.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/hash_alone.h"
#include "tests/latest_hash.h"
#include "tests/task_cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::read_bytes;
using testing::RunningProgram;
using testing::TempDir;
using testing::Words;
using testing::operator+;

/// A chief, one worker and perhaps a ps, each started by the test, with folders of their own.
class Tasks {
 public:
  explicit Tasks(bool with_ps = false) : ports_(3, {}) {
    cluster_ = fmt::format(R"({{"chief": ["{}"], "worker": ["{}"]{}}})", address("chief"),
                           address("worker"),
                           with_ps ? fmt::format(R"(, "ps": ["{}"])", address("ps")) : "");
  }

  std::string address(const std::string& type) const {
    return fmt::format("127.0.0.1:{}", port(type));
  }
  std::uint16_t port(const std::string& type) const {
    return ports_[type == "chief" ? 0 : type == "worker" ? 1 : 2];
  }

  void start(const std::string& type, const Words& flags, const Words& environment = {}) {
    const std::string place = fmt::format(
        R"(TF_CONFIG={{"cluster": {}, "task": {{"type": "{}", "index": 0}}}})", cluster_, type);
    running_[type] = std::make_unique<RunningProgram>(
        CLUSTER_JOB, Words{"--model-dir", folder_ / type} + flags,
        testing::ProgramOptions{.environment = Words{place} + environment});
  }
  // worker:99, which the others do not know.
  void start_stranger(const Words& flags) {
    const std::string place =
        fmt::format(R"(TF_CONFIG={{"cluster": {{"chief": ["{}"], "worker": {{"99": "{}"}}}}, )"
                    R"("task": {{"type": "worker", "index": 99}}}})",
                    address("chief"), address("worker"));
    running_["stranger"] = std::make_unique<RunningProgram>(
        CLUSTER_JOB, Words{"--model-dir", folder_ / "stranger"} + flags,
        testing::ProgramOptions{.environment = Words{place}});
  }
  Outcome wait(const std::string& type) { return running_.at(type)->wait(); }
  Path folder(const std::string& type) const { return folder_ / type; }
  std::string hash() const { return hash_of(folder_ / "chief"); }

 private:
  TempDir folder_;
  const launch::ReservedPorts ports_;
  std::string cluster_;
  std::map<std::string, std::unique_ptr<RunningProgram>> running_;
};

const Words kShort{"--steps", "20", "--replicas", "4"};

TEST(ClusterFailure, APortInUseIsNamedAndWorthAnotherTry) {
  Tasks tasks;
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(taken, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(tasks.port("chief"));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  tasks.start("chief", kShort);
  const Outcome chief = tasks.wait("chief");
  ::close(taken);
  EXPECT_EQ(chief.status, 75) << chief.err;
  EXPECT_THAT(chief.err, HasSubstr(tasks.address("chief")));
}

TEST(ClusterFailure, AChiefThatIsNowhereIsNamedWithItsAddress) {
  Tasks tasks;
  tasks.start("worker", kShort + Words{"--session-timeout-secs", "1"});
  const Outcome worker = tasks.wait("worker");
  EXPECT_EQ(worker.status, 75) << worker.err;
  EXPECT_THAT(worker.err, AllOf(HasSubstr("chief:0"), HasSubstr(tasks.address("chief"))));
}

TEST(ClusterFailure, ATaskThatComesAfterTheEndFindsNobodyAndSaysSo) {
  Tasks tasks;
  // Not for two hours, as long as a session may take to be created.
  tasks.start("worker", kShort + Words{"--join-timeout-ms", "1000"});
  const Outcome worker = tasks.wait("worker");
  EXPECT_EQ(worker.status, 75) << worker.err;
  EXPECT_THAT(worker.err, AllOf(HasSubstr("worker:0 has not met chief:0 within 1 s"),
                                HasSubstr("the run is over"), HasSubstr(tasks.address("chief"))));
}

TEST(ClusterFailure, ARunBeginsWithoutAWorkerThatDoesNotCome) {
  Tasks tasks;
  tasks.start("chief", kShort + Words{"--join-timeout-ms", "500"});
  const Outcome chief = tasks.wait("chief");
  EXPECT_EQ(chief.status, 0) << chief.err;
  EXPECT_THAT(chief.err, HasSubstr("1 of 2 tasks have come"));
  EXPECT_EQ(tasks.hash(), hash_alone(kShort));
}

TEST(ClusterFailure, AServerThatDoesNotComeIsNamed) {
  Tasks tasks(/*with_ps=*/true);
  tasks.start("chief", kShort + Words{"--join-timeout-ms", "500"});
  const Outcome chief = tasks.wait("chief");
  EXPECT_EQ(chief.status, 75) << chief.err;
  EXPECT_THAT(chief.err, HasSubstr("ps:0 did not come"));
}

TEST(ClusterFailure, ATaskOfOtherTermsIsToldWhichAndTheOthersGoOn) {
  const Words others[] = {{"--steps", "20", "--replicas", "3"},
                          {"--steps", "20", "--replicas", "4", "--seed", "4"}};
  const char* reasons[] = {"the chief's run has 4 replicas, this task was given 3",
                           "the chief's seed is 3, this task's 4"};
  for (std::size_t i = 0; i < 2; ++i) {
    Tasks tasks;
    // First, so that it is there while the chief waits for it.
    tasks.start("worker", others[i]);
    tasks.start("chief", kShort + Words{"--join-timeout-ms", "5000"});
    const Outcome worker = tasks.wait("worker");
    EXPECT_EQ(worker.status, 1) << worker.err;
    EXPECT_THAT(worker.err, AllOf(HasSubstr("worker:0 cannot take part"), HasSubstr(reasons[i])));
    const Outcome chief = tasks.wait("chief");
    EXPECT_EQ(chief.status, 0) << chief.err;
    EXPECT_THAT(chief.err, HasSubstr(reasons[i]));
    EXPECT_EQ(tasks.hash(), hash_alone(kShort));
  }
}

TEST(ClusterFailure, OtherHyperparametersAreRefusedByNameWithBothValues) {
  const Words others[] = {{"--rate", "0.07"}, {"--batch", "4"}};
  const char* reasons[] = {"the chief's optimizer of \"dnn\" is 'adagrad(",
                           "the chief's --batch is '8', this task's '4'"};
  for (std::size_t i = 0; i < 2; ++i) {
    Tasks tasks;
    tasks.start("worker", kShort + others[i]);
    tasks.start("chief", kShort);
    const Outcome worker = tasks.wait("worker");
    EXPECT_EQ(worker.status, 1) << worker.err;
    EXPECT_THAT(worker.err, HasSubstr(reasons[i]));
    // It does not wait for one that cannot come.
    const Outcome chief = tasks.wait("chief");
    EXPECT_EQ(chief.status, 0) << chief.err;
    EXPECT_EQ(tasks.hash(), hash_alone(kShort));
  }
}

TEST(ClusterFailure, AServerOfOtherHyperparametersEndsAllAtOnceWithItsReason) {
  Tasks tasks(/*with_ps=*/true);
  tasks.start("ps", kShort + Words{"--rate", "0.07"});
  tasks.start("worker", kShort);
  tasks.start("chief", kShort);
  for (const char* task : {"ps", "worker", "chief"}) {
    const Outcome outcome = tasks.wait(task);
    EXPECT_NE(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("the chief's optimizer of \"dnn\" is 'adagrad(")) << task;
    EXPECT_THAT(outcome.err, Not(HasSubstr("did not come within"))) << task;
  }
}

TEST(ClusterFailure, BatchesOfOtherSizesThatNobodyComparesAreSeenInTheFirstStep) {
  Tasks tasks;
  tasks.start("worker", kShort + Words{"--tells-batch=false", "--batch", "4"});
  tasks.start("chief", kShort + Words{"--tells-batch=false"});
  EXPECT_THAT(tasks.wait("chief").err,
              HasSubstr("a batch has 8 examples in chief:0 and 4 in worker:0"));
  EXPECT_EQ(tasks.wait("worker").status, 0);
}

/// The chief's number of steps is that of the run.
TEST(ClusterFailure, AWorkerThatWasToldFewerOrMoreStepsEndsWithTheChief) {
  for (const bool with_ps : {false, true}) {
    for (const char* steps : {"5", "50"}) {
      Tasks tasks(with_ps);
      tasks.start("chief", kShort);
      tasks.start("worker", Words{"--steps", steps, "--replicas", "4"});
      if (with_ps) tasks.start("ps", kShort);
      const Outcome chief = tasks.wait("chief");
      EXPECT_EQ(chief.status, 0) << chief.err;
      EXPECT_EQ(tasks.hash(), hash_alone(kShort));
      const Outcome worker = tasks.wait("worker");
      EXPECT_EQ(worker.status, 0) << worker.err;
      EXPECT_THAT(worker.err, HasSubstr("the chief ends the run at step 20"));
      if (with_ps) {
        EXPECT_EQ(tasks.wait("ps").status, 0);
      }
    }
  }
}

/// It has its own idea of the cluster, in which it is a task.
TEST(ClusterFailure, AStrangersTaskIsRefused) {
  Tasks tasks;
  tasks.start_stranger(kShort);
  tasks.start("chief", kShort + Words{"--join-timeout-ms", "2000"});
  const Outcome stranger = tasks.wait("stranger");
  EXPECT_EQ(stranger.status, 1) << stranger.err;
  EXPECT_THAT(stranger.err, HasSubstr("has a cluster without worker:99"));
  const Outcome chief = tasks.wait("chief");
  EXPECT_EQ(chief.status, 0) << chief.err;
  EXPECT_THAT(chief.err, HasSubstr("the cluster of this task has no worker:99"));
  EXPECT_EQ(tasks.hash(), hash_alone(kShort));
}

TEST(ClusterFailure, ATaskThatComputesWithOtherKernelsIsToldSo) {
  Tasks tasks;
  // libtorch or OpenBLAS then use kernels for any processor, whose bits are others.
  tasks.start("worker", kShort);
  tasks.start("chief", kShort + Words{"--join-timeout-ms", "5000"},
              {"ATEN_CPU_CAPABILITY=default", "OPENBLAS_CORETYPE=ARMV8"});
  const Outcome worker = tasks.wait("worker");
  EXPECT_EQ(worker.status, 1) << worker.err;
  EXPECT_THAT(worker.err, HasSubstr("the chief computes with"));
  EXPECT_EQ(tasks.wait("chief").status, 0);
}

/// A cluster of a chief, a worker and perhaps a ps that `muster launch` runs: their logs can be
/// read meanwhile.
class Launched {
 public:
  Launched(std::size_t ps, const Words& flags, const Words& environment = {})
      : launcher_(MUSTER_PROGRAM,
                  Words{"launch", "--chief", "--workers", "1", "--ps", std::to_string(ps),
                        "--log-dir", folder_ / "logs", "--no-training-log", "--",
                        testing::warm_stand_in(CLUSTER_JOB), "--model-dir", folder_ / "model"} +
                      flags,
                  {.environment = environment}) {}

  std::string log(const std::string& task) const {
    const Path file = folder_ / "logs" / (task + ".log");
    return std::filesystem::exists(file) ? read_bytes(file) : "";
  }
  bool says(const std::string& task, const std::string& text) const {
    return log(task).find(text) != std::string::npos;
  }
  void send(const std::string& task, int signal) const {
    const pid_t stand_in = std::stoi(read_bytes(folder_ / "logs" / (task + ".pid")));
    const pid_t process = testing::warm_fork_of(stand_in);
    ASSERT_GT(process, 0) << task;
    ASSERT_EQ(::kill(process, signal), 0);
  }
  Outcome wait() { return launcher_.wait(); }
  Path model_dir() const { return folder_ / "model"; }

 private:
  TempDir folder_;
  RunningProgram launcher_;
};

TEST(ClusterFailure, NoTaskOutlivesTheRunByMoreThanTenSeconds) {
  for (const std::size_t servers : {0U, 2U}) {
    TaskCluster cluster(2, servers, kShort + Words{"--ps-log"});
    EXPECT_EQ(cluster.wait(0).status, 0);
    const auto end = std::chrono::steady_clock::now();
    cluster.wait_all();
    EXPECT_LT(std::chrono::steady_clock::now() - end, std::chrono::seconds(10));
  }
}

TEST(ClusterFailure, AChiefThatWasLostAfterTheLastStepEndsTheRunForThoseWhoAreLeft) {
  TaskCluster cluster(1, 2, kShort + Words{"--ps-log"});
  cluster.wait_all();
  // As if it had been killed before it could tell one of the ps, which still looks for it.
  cluster.start(3);
  cluster.start(0);
  for (const std::size_t task : {0U, 3U}) {
    const Outcome outcome = cluster.wait(task);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(kShort));
}

struct LastSaveLayout {
  bool with_ps;
  Words more;
};

class LastSave : public ::testing::TestWithParam<LastSaveLayout> {};

// The chief of a run that cannot save its last step is started again, as launch does it.
TEST_P(LastSave, IsMadeAgainFromWhatOthersHaveBeforeAnybodyLeaves) {
  const auto& [with_ps, more] = GetParam();
  const Words flags = kShort + Words{"--save-steps", "10"};
  Tasks tasks(with_ps);
  // A checkpoint cannot be renamed to where a folder is.
  const Path in_the_way = tasks.folder("chief") / "model.ckpt-20.index";
  std::filesystem::create_directories(in_the_way / "folder");
  std::vector<std::string> others{"worker"};
  if (with_ps) others.emplace_back("ps");
  for (const auto& other : others) tasks.start(other, flags + more);
  tasks.start("chief", flags + more);
  const Outcome lost = tasks.wait("chief");
  EXPECT_EQ(lost.status, 1) << lost.err;
  EXPECT_THAT(lost.err, HasSubstr("the checkpoint of the last step, 20, is not saved"));
  std::filesystem::remove_all(in_the_way);
  tasks.start("chief", flags + more);
  const Outcome chief = tasks.wait("chief");
  EXPECT_EQ(chief.status, 0) << chief.err;
  EXPECT_THAT(chief.err, AllOf(HasSubstr("saved checkpoint step=20"),
                               Not(HasSubstr("Loss for final step")), Not(HasSubstr("no batch"))));
  for (const auto& other : others) {
    const Outcome outcome = tasks.wait(other);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  EXPECT_EQ(checkpoint_step(latest_checkpoint(tasks.folder("chief")).value_or("")), 20);
  EXPECT_EQ(tasks.hash(), hash_alone(kShort));
}

INSTANTIATE_TEST_SUITE_P(Each, LastSave,
                         ::testing::Values(LastSaveLayout{false, {}}, LastSaveLayout{true, {}},
                                           LastSaveLayout{true, {"--ps-log"}}),
                         [](const auto& one) {
                           return std::string(one.param.with_ps ? "WithPs" : "Collective") +
                                  (one.param.more.empty() ? "" : "AndLog");
                         });

class SlowLastSave : public ::testing::TestWithParam<std::size_t> {};

// Longer than the others would wait for a chief that does not live, five seconds more than for one
// to join, and longer than a run that goes on waits for a ps.
TEST_P(SlowLastSave, IsWaitedForWhoeverIsLostMeanwhile) {
  const std::size_t servers = GetParam();
  const Words times = servers == 0 ? Words{"--last-save-ms", "7000", "--join-timeout-ms", "1000"}
                                   : Words{"--last-save-ms", "6000", "--join-timeout-ms", "4000"};
  TaskCluster cluster(2, servers, kShort + times);
  ASSERT_TRUE(eventually([&] { return cluster.says(0, "the last save takes"); }));
  // A worker, or a ps that a run that goes on could not do without.
  const std::size_t lost = servers == 0 ? 1 : 3;
  cluster.kill(lost);
  EXPECT_EQ(cluster.wait(lost).status, 128 + SIGKILL);
  for (std::size_t task = 0; task < cluster.size(); ++task) {
    if (task == lost) continue;
    const Outcome outcome = cluster.wait(task);
    EXPECT_EQ(outcome.status, 0) << cluster.name(task) << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, Not(HasSubstr("did not come within"))) << cluster.name(task);
  }
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(kShort));
}

// Before a byte of it is on the disk.
TEST_P(SlowLastSave, OfAChiefThatIsKilledMeanwhileIsMadeFromWhatOthersHave) {
  const std::size_t servers = GetParam();
  for (const bool has_log : {false, true}) {
    if (has_log && servers == 0) continue;
    const Words flags = kShort + Words{"--save-steps", "15"};
    TaskCluster cluster(
        1, servers,
        flags + Words{"--last-save-ms", "1000"} + (has_log ? Words{"--ps-log"} : Words{}));
    ASSERT_TRUE(eventually([&] { return cluster.says(0, "the last save takes"); }));
    EXPECT_EQ(cluster.saved_step(), 15);
    cluster.kill_and_start(0);
    const std::string chief = cluster.wait(0).err;
    EXPECT_THAT(chief,
                AllOf(HasSubstr("Restoring parameters"), HasSubstr("model.ckpt-15"),
                      HasSubstr("saved checkpoint step=20"), Not(HasSubstr("Loss for final step"))))
        << "a step was trained again";
    cluster.wait_all();
    EXPECT_EQ(cluster.saved_step(), 20);
    EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(kShort));
  }
}

INSTANTIATE_TEST_SUITE_P(Each, SlowLastSave, ::testing::Values(0U, 2U),
                         [](const auto& one) { return one.param == 0 ? "Collective" : "WithPs"; });

// How long a wait for this had lasted when its task first said so; nothing while it has not.
std::optional<double> reported_after(const std::string& log, const std::string& cause) {
  std::smatch found;
  if (!std::regex_search(log, found, std::regex("waits ([0-9.]+) s for " + cause))) {
    return std::nullopt;
  }
  return std::stod(found[1]);
}

TEST(ClusterFailure, AStallIsReportedWithItsCauseInTime) {
  for (const std::size_t servers : {0U, 1U}) {
    const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "10"};
    Launched cluster(servers, flags + Words{"--step-ms", "10", "--peer-timeout-ms", "5000"},
                     {"MUSTER_STALL_SECONDS=1"});
    ASSERT_TRUE(eventually([&] { return cluster.says("chief", "saved checkpoint step=10"); }));
    cluster.send("worker0", SIGSTOP);
    // Each task that needs its gradients names it; a chief with ps tasks names those that it waits
    // for.
    const std::string task = servers == 0 ? "chief" : "ps";
    std::optional<double> after;
    EXPECT_TRUE(eventually([&] {
      after = reported_after(cluster.log(task), "worker:0: ");
      return after.has_value();
    })) << cluster.log(task);
    EXPECT_GE(after.value_or(0), 1);
    EXPECT_LT(after.value_or(100), 3);
    if (servers > 0) {
      EXPECT_TRUE(eventually([&] { return reported_after(cluster.log("chief"), "ps:0: "); }));
    }
    cluster.send("worker0", SIGCONT);
    EXPECT_EQ(cluster.wait().status, 0);
  }
}

struct Pause {
  std::size_t ps;
  std::string paused;
  /// Who notices, and what that one says.
  std::string task;
  std::string line;
};

class PausedTask : public ::testing::TestWithParam<Pause> {};

TEST_P(PausedTask, IsWaitedForAndNothingIsLost) {
  const auto& [ps, paused, task, line] = GetParam();
  const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "10"};
  Launched cluster(ps, flags + Words{"--step-ms", "10", "--peer-timeout-ms", "1000"});
  ASSERT_TRUE(eventually([&] { return cluster.says("chief", "saved checkpoint step=10"); }));
  cluster.send(paused, SIGSTOP);
  EXPECT_TRUE(eventually([&] { return cluster.says(task, line); }));
  cluster.send(paused, SIGCONT);
  const Outcome outcome = cluster.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  EXPECT_THAT(outcome.err, AllOf(Not(HasSubstr("asking ")), Not(HasSubstr(" failed "))));
  EXPECT_EQ(hash_of(cluster.model_dir()), hash_alone(flags));
}

INSTANTIATE_TEST_SUITE_P(
    Each, PausedTask,
    ::testing::Values(Pause{0, "chief", "worker0", "chief:0 is lost and waited for"},
                      Pause{1, "chief", "worker0", "chief:0 is lost and waited for"},
                      Pause{1, "ps", "chief", "the run waits for ps:0"}),
    [](const auto& one) { return one.param.paused + (one.param.ps > 0 ? "WithPs" : "WithoutPs"); });

}  // namespace
}  // namespace muster
