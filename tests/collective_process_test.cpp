// Tasks of a cluster as processes on loopback: the same weights for any layout and any killed task.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/orchestration/launch/ports.h"
#include "muster/testing/eventually.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/hash_alone.h"
#include "tests/latest_hash.h"
#include "tests/task_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::RunningProgram;
using testing::TempDir;
using testing::Words;
using testing::operator+;

bool listens(std::uint16_t port) {
  const int handle = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0) throw_errno(errno, "making a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool connected =
      ::connect(handle, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(handle);
  return connected;
}

// MUSTER_LONG_TESTS=1 trains longer, and kills more.
std::string in_long(const char* steps, const char* otherwise) {
  return testing::are_tests_long() ? steps : otherwise;
}

TEST(Collective, GivesTheWeightsOfOneProcess) {
  for (const std::string replicas : {"4", "3"}) {
    const Words flags{"--steps", in_long("40", "20"), "--replicas", replicas};
    const std::string alone = hash_alone(flags);
    for (const std::size_t workers : {1U, 3U}) {
      for (const std::string slice_above : {"0", "1000000"}) {
        // Each of them is up to four processes; MUSTER_LONG_TESTS=1 runs all.
        const bool is_sliced = slice_above == "0";
        if (!testing::are_tests_long() && is_sliced != ((workers == 3) == (replicas == "4")))
          continue;
        TaskCluster cluster(workers, 0, flags + Words{"--slice-above", slice_above});
        cluster.wait_all();
        EXPECT_EQ(hash_of(cluster.chief_folder()), alone)
            << replicas << " replicas, " << workers << " workers, slices above " << slice_above;
      }
    }
  }
}

// With --on-device the model has no columns that are looked up, so that its steps can be compiled.
const Words kCompiled{"--on-device", "--compile", "on", "--replicas", "3", "--save-steps", "5"};

TEST(CompiledSteps, GiveTheWeightsOfOneProcessInTwoTasks) {
  const Words flags = kCompiled + Words{"--steps", in_long("40", "12")};
  TaskCluster cluster(1, 0, flags);
  // The chief tells what all tasks do alike.
  const std::string log = cluster.wait_all()[0];
  EXPECT_THAT(log, HasSubstr("a training step of "));
  EXPECT_THAT(log, HasSubstr(" is compiled: "));
  EXPECT_THAT(log, ::testing::Not(HasSubstr("not compiled")));
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(CompiledSteps, GiveTheSameWeightsAfterTasksWereKilled) {
  const Words flags = kCompiled + Words{"--steps", in_long("60", "30"), "--step-ms", "20"};
  TaskCluster cluster(1, 0, flags);
  cluster.wait_for_step(5);
  cluster.kill_and_start(1);
  cluster.wait_for_step(15);
  cluster.kill_and_start(0);
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(CompiledSteps, ATaskThatDoesNotCompileIsRefused) {
  TaskCluster cluster(1, 0, kCompiled + Words{"--steps", "4"}, {.starts = false});
  cluster.start(0);
  cluster.start(1, {}, {"--compile", "off"});
  const Outcome worker = cluster.wait(1);
  EXPECT_NE(worker.status, 0);
  EXPECT_THAT(worker.err, HasSubstr("the chief's compile is 'on, compiler "));
  EXPECT_THAT(worker.err, HasSubstr("', this task's 'off'; give all tasks the same"));
  cluster.kill(0);
  cluster.wait(0);
}

TEST(Collective, TowersInsideTasksChangeNothing) {
  const Words flags{"--steps", in_long("40", "20"), "--replicas", "4"};
  TaskCluster cluster(1, 0, flags + Words{"--concurrent", "2"});
  cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Collective, ManyTasksThatLoseSomeEndWithTheWeightsOfOneProcess) {
  const Words flags{"--steps", in_long("60", "30"), "--replicas", "16", "--save-steps", "5"};
  TaskCluster cluster(15, 0, flags + Words{"--step-ms", "10", "--slice-above", "0"});
  cluster.wait_for_step(5);
  cluster.kill(7);
  cluster.kill(12);
  cluster.wait_for_step(15);
  cluster.start(12);
  const Outcome chief = cluster.wait(0);
  EXPECT_EQ(chief.status, 0) << chief.err;
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

/// Restricts this process, and those that it starts, to two processors, or to the one there is.
class OnTwoProcessors {
 public:
  OnTwoProcessors() {
    EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t two = before_;
    for (std::size_t processor = 0; CPU_COUNT(&two) > 2; ++processor) CPU_CLR(processor, &two);
    EXPECT_EQ(::sched_setaffinity(0, sizeof two, &two), 0);
  }
  ~OnTwoProcessors() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OnTwoProcessors(const OnTwoProcessors&) = delete;
  OnTwoProcessors& operator=(const OnTwoProcessors&) = delete;

 private:
  cpu_set_t before_{};
};

// The fourth task adds up what it and the two behind it have, where there are two processors.
TEST(CollectiveOnSharedProcessors, LosesTasksThatAddUpForOthersAndEndsWithTheWeightsOfOneProcess) {
  const OnTwoProcessors processors;
  const Words flags{"--steps", in_long("120", "60"), "--replicas", "7", "--save-steps", "5"};
  TaskCluster cluster(
      5, 0, flags + Words{"--step-ms", "10", "--slice-above", "0", "--peer-timeout-ms", "3000"},
      {.environment = {"MUSTER_STALL_SECONDS=1"}});
  cluster.wait_for_step(5);
  cluster.kill_and_start(3);
  cluster.wait_for_step(15);
  cluster.kill_and_start(4);
  cluster.wait_for_step(25);
  // It hangs: the tasks that wait for it say so, and go on without it.
  cluster.kill(3, SIGSTOP);
  EXPECT_TRUE(testing::eventually([&] { return cluster.says(0, " s for worker:2: "); }));
  cluster.wait_for_step(40);
  cluster.kill(3, SIGCONT);
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(CollectiveOnSharedProcessors, EncryptedAndUnevenItGivesTheWeightsOfOneProcess) {
  const OnTwoProcessors processors;
  const Words flags{"--steps", "20", "--replicas", "10"};
  TaskCluster cluster(6, 0, flags,
                      {.environment = {"MUSTER_TLS=1", "MUSTER_SECRET=a long random text"}});
  cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(CollectiveOnDevices, GivesTheWeightsOfOneProcess) {
  const Words flags{"--on-device", "--steps", in_long("40", "20"), "--replicas", "4"};
  const std::string alone = hash_alone(flags);
  for (const std::size_t workers : {1U, 2U, 3U}) {
    if (!testing::are_tests_long() && workers == 2) continue;
    TaskCluster cluster(workers, 0, flags);
    cluster.wait_all();
    EXPECT_EQ(hash_of(cluster.chief_folder()), alone) << workers << " workers";
  }
}

// Each task has two devices and variables on the first; one is lost and comes back.
TEST(CollectiveOnDevices, WithSeveralInATaskItGivesTheWeightsOfOneProcess) {
  const Words flags{"--on-device", "--steps", "60", "--replicas", "5", "--save-steps", "10"};
  TaskCluster cluster(1, 0, flags + Words{"--logical-devices", "2", "--step-ms", "10"});
  cluster.wait_for_step(10);
  cluster.kill_and_start(1);
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(CollectiveOnDevices, EndsTogetherWhenUnevenInputsEnd) {
  // 34, 20 and 34 examples: 5, 3 and 5 batches.
  const Words flags{"--on-device", "--steps", "1000", "--replicas", "3", "--examples", "102"};
  TaskCluster cluster(2, 0, flags);
  cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(CollectiveOnDevices, GoesOnWithoutAWorkerAndTakesItBack) {
  const Words flags{"--on-device", "--steps", "120", "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(2, 0, flags + Words{"--step-ms", "10"});
  cluster.wait_for_step(10);
  cluster.kill(1);
  EXPECT_EQ(cluster.wait(1).status, 128 + SIGKILL);
  cluster.wait_for_step(30);
  cluster.start(1);
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Collective, EncryptedItGivesTheWeightsOfOneProcess) {
  const Words flags{"--steps", in_long("40", "20"), "--replicas", "3"};
  TaskCluster cluster(2, 0, flags,
                      {.environment = {"MUSTER_TLS=1", "MUSTER_SECRET=a long random text"}});
  cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Collective, TasksThatKnowOneAddressAloneFindEachOther) {
  const Words flags{"--steps", in_long("40", "20"), "--replicas", "3"};
  const TempDir folder;
  const launch::ReservedPorts ports(1, {});
  std::vector<std::unique_ptr<RunningProgram>> tasks;
  for (int rank = 0; rank < 3; ++rank) {
    const Path model_dir = folder.path() / std::to_string(rank);
    tasks.push_back(std::make_unique<RunningProgram>(
        CLUSTER_JOB, Words{"--model-dir", model_dir.string()} + flags,
        testing::ProgramOptions{.environment = {fmt::format("RANK={}", rank), "WORLD_SIZE=3",
                                                "MASTER_ADDR=127.0.0.1",
                                                fmt::format("MASTER_PORT={}", ports[0])}}));
  }
  for (const auto& task : tasks) {
    const Outcome outcome = task->wait();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  EXPECT_EQ(hash_of(folder.path() / "0"), hash_alone(flags));
}

TEST(Collective, EndsTogetherWhenUnevenInputsEnd) {
  // 34, 20 and 34 examples: 5, 3 and 5 batches.
  const Words flags{"--steps", "1000", "--replicas", "3", "--examples", "102"};
  TaskCluster cluster(2, 0, flags);
  cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Collective, GoesOnWithoutAWorkerAndTakesItBack) {
  const Words flags{"--steps", in_long("200", "100"), "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(2, 0, flags + Words{"--step-ms", "10"});
  cluster.wait_for_step(10);
  cluster.kill(1);
  EXPECT_EQ(cluster.wait(1).status, 128 + SIGKILL);
  cluster.wait_for_step(30);
  cluster.start(1);
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Collective, ARestartedChiefGoesOnFromWhatTheWorkersHave) {
  const Words flags{"--steps", "60", "--replicas", "2"};
  TaskCluster cluster(1, 0, flags + Words{"--step-ms", "20", "--save-steps", "20"});
  cluster.wait_for_step(20);
  cluster.kill(0);
  const Outcome killed = cluster.wait(0);
  EXPECT_EQ(killed.status, 128 + SIGKILL);
  cluster.start(0);
  cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Collective, APausedWorkerIsLeftBehindAndComesBack) {
  const Words flags{"--steps", in_long("200", "100"), "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(1, 0, flags + Words{"--step-ms", "10", "--peer-timeout-ms", "1000"});
  cluster.wait_for_step(10);
  cluster.kill(1, SIGSTOP);
  cluster.wait_for_step(30);
  cluster.kill(1, SIGCONT);
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Collective, KilledAtRandomItEndsWithTheWeightsOfAQuietRun) {
  const Words flags{"--steps", in_long("150", "80"), "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(3, 0, flags + Words{"--step-ms", "10"});
  Random random(7, 0, 0);
  for (std::int64_t step = 10; step <= (testing::are_tests_long() ? 120 : 50); step += 10) {
    cluster.wait_for_step(step);
    const auto task = 1 + static_cast<std::size_t>(random.uniform(0, 3));
    cluster.kill(task);
    cluster.wait(task);
    cluster.start(task);
  }
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Collective, AStopSignalToAWorkerHandsItsReplicasBack) {
  const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(1, 0, flags + Words{"--step-ms", "10"});
  cluster.wait_for_step(10);
  cluster.kill(1, SIGTERM);
  EXPECT_EQ(cluster.wait(1).status, 128 + SIGTERM);
  EXPECT_EQ(cluster.wait(0).status, 0);
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Collective, AStopSignalToTheChiefEndsAllAtOneStepAndTheRunResumes) {
  const Words flags{"--steps", "60", "--replicas", "2", "--save-steps", "10"};
  TaskCluster cluster(1, 0, flags + Words{"--step-ms", "10"});
  cluster.wait_for_step(10);
  cluster.kill(0, SIGTERM);
  EXPECT_EQ(cluster.wait(0).status, 128 + SIGTERM);
  const Outcome worker = cluster.wait(1);
  EXPECT_EQ(worker.status, 128 + SIGTERM) << worker.err;
  EXPECT_THAT(worker.err, HasSubstr("stopped by signal 15 to the chief after step"));
  cluster.start(0);
  cluster.start(1);
  cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Collective, AStopSignalEndsATaskThatWaitsForOthers) {
  const TempDir folder;
  const launch::ReservedPorts ports(2, {});
  RunningProgram worker(
      CLUSTER_JOB, {"--model-dir", folder.path().string()},
      {.environment = {fmt::format(R"(TF_CONFIG={{"cluster": {{"chief": ["127.0.0.1:{}"], )"
                                   R"("worker": ["127.0.0.1:{}"]}}, )"
                                   R"("task": {{"type": "worker", "index": 0}}}})",
                                   ports[0], ports[1])}});
  // Once it listens, it looks for its chief.
  ASSERT_TRUE(testing::eventually([&] { return listens(ports[1]); }));
  worker.send(SIGTERM);
  const Outcome outcome = worker.wait();
  EXPECT_EQ(outcome.status, 128 + SIGTERM);
  EXPECT_FALSE(outcome.killed);
  EXPECT_THAT(outcome.err, HasSubstr("stopped by signal 15 while waiting for chief:0"));
}

// A worker that hangs while its heartbeat goes on is like one that is stopped and not missed yet.
class HungWorker : public ::testing::TestWithParam<std::size_t> {};

TEST_P(HungWorker, DoesNotKeepAChiefThatIsAskedOnceFromSavingAndStopping) {
  const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "20"};
  ::setenv("MUSTER_STALL_SECONDS", "1", 1);
  TaskCluster cluster(1, /*servers=*/GetParam(),
                      flags + Words{"--step-ms", "10", "--peer-timeout-ms", "600000"});
  ::unsetenv("MUSTER_STALL_SECONDS");
  cluster.wait_for_step(20);
  cluster.kill(1, SIGSTOP);
  const std::string whom = GetParam() == 0 ? " s for worker:0: " : " s for ps:0: ";
  ASSERT_TRUE(testing::eventually([&] { return cluster.says(0, whom); }));
  cluster.kill(0, SIGTERM);
  const Outcome chief = cluster.wait(0);
  EXPECT_EQ(chief.status, 128 + SIGTERM) << chief.err;
  EXPECT_THAT(chief.err, HasSubstr("which is saved"));
  cluster.kill(1);
  cluster.wait(1);
  for (std::size_t ps = 2; ps < cluster.size(); ++ps) {
    const Outcome outcome = cluster.wait(ps);
    EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.err;
  }
  // All of the step is there, slots and statistics of batch norm too.
  const std::int64_t step = cluster.saved_step();
  EXPECT_LT(step, 60);
  EXPECT_EQ(hash_of(cluster.chief_folder()),
            hash_alone({"--steps", std::to_string(step), "--replicas", "4"}));
}

INSTANTIATE_TEST_SUITE_P(Each, HungWorker, ::testing::Values(0, 2),
                         [](const auto& one) { return fmt::format("With{}Ps", one.param); });

TEST(Collective, WorkersGiveUpOnAChiefThatDoesNotComeBackAndNameIt) {
  const Words flags{"--steps",   "1000", "--replicas",        "2",   "--save-steps", "10",
                    "--step-ms", "10",   "--join-timeout-ms", "1000"};
  TaskCluster cluster(1, 0, flags);
  cluster.wait_for_step(10);
  cluster.kill(0);
  const Outcome worker = cluster.wait(1);
  EXPECT_EQ(worker.status, 75) << worker.err;
  EXPECT_THAT(worker.err, HasSubstr("chief:0"));
}

TEST(ParameterServer, GivesTheWeightsOfOneProcess) {
  for (const std::string replicas : {"4", "3"}) {
    const Words flags{"--steps", in_long("40", "20"), "--replicas", replicas};
    const std::string alone = hash_alone(flags);
    for (const std::size_t servers : {1U, 2U, 3U}) {
      for (const std::size_t workers : {0U, 1U, 3U}) {
        if (replicas == "3" && servers != 2) continue;
        // Each of them is up to seven processes; MUSTER_LONG_TESTS=1 runs all.
        if (!testing::are_tests_long() && (servers == 2) != (workers == 1)) continue;
        TaskCluster cluster(workers, servers, flags);
        cluster.wait_all();
        EXPECT_EQ(hash_of(cluster.chief_folder()), alone)
            << replicas << " replicas, " << workers << " workers, " << servers << " servers";
      }
    }
  }
}

TEST(ParameterServer, EndsTogetherWhenUnevenInputsEnd) {
  const Words flags{"--steps", "1000", "--replicas", "3", "--examples", "102"};
  TaskCluster cluster(2, 2, flags);
  cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(ParameterServer, GoesOnWithoutAWorkerAndTakesItBack) {
  const Words flags{"--steps", in_long("200", "100"), "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(2, 2, flags + Words{"--step-ms", "10"});
  cluster.wait_for_step(10);
  cluster.kill(1);
  EXPECT_EQ(cluster.wait(1).status, 128 + SIGKILL);
  cluster.wait_for_step(30);
  cluster.start(1);
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(ParameterServer, ARestartedChiefTakesWhatTheServersHave) {
  const Words flags{"--steps", "60", "--replicas", "2"};
  TaskCluster cluster(1, 2, flags + Words{"--step-ms", "20", "--save-steps", "20"});
  cluster.wait_for_step(20);
  cluster.kill(0);
  EXPECT_EQ(cluster.wait(0).status, 128 + SIGKILL);
  cluster.start(0);
  cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(ParameterServer, AfterTheLossOfAServerAllGoBackToTheLastCheckpoint) {
  const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(1, 2, flags + Words{"--step-ms", "10"});
  cluster.wait_for_step(20);
  cluster.kill(2);
  EXPECT_EQ(cluster.wait(2).status, 128 + SIGKILL);
  cluster.start(2);
  const Outcome chief = cluster.wait(0);
  EXPECT_EQ(chief.status, 0) << chief.err;
  EXPECT_THAT(chief.err, HasSubstr("all go back to the last checkpoint"));
  EXPECT_EQ(cluster.wait(1).status, 0);
  EXPECT_EQ(cluster.wait(2).status, 0);
  EXPECT_EQ(cluster.wait(3).status, 0);
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(ParameterServer, AServerThatDoesNotComeBackIsNamed) {
  const Words flags{"--steps",   "1000", "--replicas",        "2",   "--save-steps", "10",
                    "--step-ms", "10",   "--join-timeout-ms", "6000"};
  TaskCluster cluster(1, 1, flags);
  cluster.wait_for_step(10);
  cluster.kill(2);
  for (const std::size_t task : {0U, 1U}) {
    const Outcome outcome = cluster.wait(task);
    EXPECT_EQ(outcome.status, 75) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("ps:0 did not come within 6 s"));
  }
}

TEST(ParameterServer, KilledAtRandomItEndsWithTheWeightsOfAQuietRun) {
  const Words flags{"--steps", in_long("150", "80"), "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(2, 2, flags + Words{"--step-ms", "10"});
  Random random(7, 0, 0);
  for (std::int64_t step = 10; step <= (testing::are_tests_long() ? 120 : 50); step += 10) {
    cluster.wait_for_step(step);
    const auto task = static_cast<std::size_t>(random.uniform(0, 5));
    cluster.kill(task);
    cluster.wait(task);
    cluster.start(task);
  }
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

}  // namespace
}  // namespace muster
