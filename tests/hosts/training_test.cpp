// Training by tasks on hosts that are apart: over slow and lossy links, with hosts that are cut
// off, killed and moved, it ends with the weights of one process.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "muster/testing/eventually.h"
#include "muster/testing/hosts/hosts.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/words.h"
#include "tests/hash_alone.h"
#include "tests/latest_hash.h"
#include "tests/task_cluster.h"

namespace muster {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::Hosts;
using testing::Link;
using testing::Words;
using testing::operator+;

const Words kFlags{"--replicas", "4", "--steps", "40", "--save-steps", "5"};
// Batches that take a while, so that there is time to interfere, and peers that are soon missed.
const Words kSlow{"--step-ms", "20", "--peer-timeout-ms", "700"};

struct Layout {
  const char* name;
  std::size_t workers;
  std::size_t servers;
};
constexpr Layout kCollective{"collective", 3, 0};
constexpr Layout kServers{"ps", 2, 2};

/// A cluster with a host for each task.
class ClusterOfHosts {
 public:
  ClusterOfHosts(const Layout& layout, const Link& link, bool has_tls, const Words& flags = kFlags)
      : hosts(1 + layout.workers + layout.servers, link),
        tasks(layout.workers, layout.servers, flags + kSlow,
              {.environment = environment(has_tls), .hosts = &hosts}) {}

  Hosts hosts;
  TaskCluster tasks;

 private:
  static Words environment(bool has_tls) {
    Words variables{"MUSTER_SECRET=a long random text"};
    if (has_tls) variables.emplace_back("MUSTER_TLS=1");
    return variables;
  }
};

class TrainingOverHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto refusal = testing::NameSpace::refusal()) GTEST_SKIP() << *refusal;
  }
};

// Kills a worker, cuts off another one for longer than peers are missed, and then the chief.
void train_through_faults(const Layout& layout, const Link& link, bool has_tls) {
  SCOPED_TRACE(fmt::format("{} delay={} us loss={} tls={}", layout.name, link.delay.count(),
                           link.loss, has_tls));
  ClusterOfHosts cluster(layout, link, has_tls);
  ASSERT_TRUE(cluster.tasks.wait_for_step(5));
  cluster.tasks.kill_and_start(2);
  ASSERT_TRUE(cluster.tasks.wait_for_step(10));
  cluster.hosts.set_connected(1, false);
  EXPECT_TRUE(testing::eventually([&] { return cluster.tasks.says(0, "worker:0 is gone"); }));
  cluster.hosts.set_connected(1, true);
  ASSERT_TRUE(cluster.tasks.wait_for_step(20));
  cluster.hosts.set_connected(0, false);
  EXPECT_TRUE(testing::eventually([&] { return cluster.tasks.says(1, "is lost and waited for"); }));
  cluster.hosts.set_connected(0, true);
  cluster.tasks.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.tasks.chief_folder()), hash_alone(kFlags));
}

TEST_F(TrainingOverHosts, KilledAndCutOffByACollectiveGivesTheWeightsOfOneProcess) {
  train_through_faults(kCollective, {}, /*has_tls=*/true);
}

TEST_F(TrainingOverHosts, KilledAndCutOffByServersOverALossyLinkGivesTheWeightsOfOneProcess) {
  train_through_faults(kServers,
                       {.delay = milliseconds(2), .jitter = milliseconds(1), .loss = 0.005}, false);
}

// As a pod that is started again elsewhere: others find it by its name.
TEST_F(TrainingOverHosts, AHostThatComesBackWithAnotherAddressIsFoundByItsName) {
  ClusterOfHosts cluster({"ps", 1, 1}, {}, /*has_tls=*/false);
  ASSERT_TRUE(cluster.tasks.wait_for_step(5));
  // The server, and then the chief.
  for (const std::size_t task : {2U, 0U}) {
    cluster.tasks.kill(task);
    cluster.tasks.wait(task);
    cluster.hosts.move(task);
    cluster.tasks.start(task);
    ASSERT_TRUE(cluster.tasks.wait_for_step(task == 0 ? 20 : 10));
  }
  cluster.tasks.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.tasks.chief_folder()), hash_alone(kFlags));
}

TEST_F(TrainingOverHosts, OverEveryLinkAndEncryptedOrNotItGivesTheWeightsOfOneProcess) {
  if (!testing::are_tests_long()) GTEST_SKIP() << "MUSTER_LONG_TESTS=1 has it";
  const Link links[] = {{},
                        {.delay = milliseconds(1), .bits_per_second = 1'000'000'000},
                        {.delay = milliseconds(10), .jitter = milliseconds(5), .loss = 0.01},
                        {.delay = milliseconds(50), .bits_per_second = 100'000'000}};
  const Layout others[] = {kCollective, kServers, {"collective", 7, 0}, {"ps", 4, 3}};
  for (const Link& link : links) {
    for (const Layout& layout : others) {
      for (const bool has_tls : {false, true}) train_through_faults(layout, link, has_tls);
    }
  }
}

}  // namespace
}  // namespace muster
