#include "muster/distribution/membership/coordinator_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/log.h"
#include "muster/platform/net/listener.h"
#include "muster/testing/eventually.h"

namespace muster::internal {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

const net::Identity kCoordinator{.task = "chief:0", .run_id = "run"};

/// A task whose messages are sent and received by hand.
class ByHand {
 public:
  ByHand(const std::string& address, const std::string& task,
         const std::string& reached_at = "127.0.0.1:1",
         const std::vector<std::int64_t>& processors = {})
      : connection_(net::Connection::connect(address, {.task = task, .run_id = "run"},
                                             kControlPurpose, Deadline::after(10s))) {
    send(*connection_,
         Join{.address = reached_at, .is_chief = task == "chief:0", .processors = processors},
         Deadline::after(10s));
  }
  void leave() { connection_->close(); }

  // The next message that is not a heartbeat and not of the beginning.
  net::Frame hear() {
    for (;;) {
      auto frame = connection_->receive(Deadline::after(20s));
      if (!frame) throw Unavailable("the coordinator closed the connection");
      if (is_message<Heartbeat>(*frame) || is_message<Admitted>(*frame) ||
          is_message<LogRun>(*frame)) {
        continue;
      }
      return std::move(*frame);
    }
  }
  std::string hear_name() { return describe_message(hear().type); }
  /// The tasks of a plan, those with "+" that share a processor with the one before.
  std::vector<std::string> hear_members() {
    net::Frame frame = hear();
    if (!is_message<GenerationPlan>(frame)) return {describe_message(frame.type)};
    std::vector<std::string> tasks;
    for (const auto& member : decode<GenerationPlan>(std::move(frame)).members) {
      tasks.push_back((member.shares_processor ? "+" : "") + member.task);
    }
    return tasks;
  }

 private:
  std::unique_ptr<net::Connection> connection_;
};

class CoordinatorTest : public ::testing::Test {
 protected:
  explicit CoordinatorTest()
      : coordinator_({.chief = "chief:0", .trainers = 2, .peer_timeout = 60s}),
        listener_("127.0.0.1:0", kCoordinator, [this](std::unique_ptr<net::Connection> connection) {
          coordinator_.serve(std::move(connection));
        }) {
    log::set_sink([this](log::Level, std::string_view line) {
      if (line.find(" is gone: ") != std::string_view::npos) ++gone_;
    });
  }
  ~CoordinatorTest() override {
    coordinator_.stop();
    listener_.close();
    log::set_sink({});
  }
  ByHand task(const std::string& name) const { return {listener_.address(), name}; }
  void wait_until_gone(int count) const {
    ASSERT_TRUE(testing::eventually([&] { return gone_ >= count; }));
  }

  std::atomic<int> gone_ = 0;
  Coordinator coordinator_;
  net::Listener listener_;
};

TEST(Coordinator, DealsReplicasToNeighboursAsEvenlyAsCanBe) {
  using Ranges = std::vector<ReplicaRange>;
  EXPECT_EQ(Coordinator::deal(4, 1), (Ranges{{0, 4}}));
  EXPECT_EQ(Coordinator::deal(4, 3), (Ranges{{0, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(Coordinator::deal(2, 3), (Ranges{{0, 1}, {1, 2}, {2, 2}}));
}

// All may have to go back to its checkpoints; its process lives, or there were no coordinator.
TEST(Coordinator, SaysInWhatATaskDiffersWithBothValuesAndTheCure) {
  const RunContract chief{.replicas = 4, .threads_per_replica = 2, .seed = 5, .arithmetic = "one"};
  const auto reason = [&](const auto& change) {
    RunContract task = chief;
    change(task);
    return difference(chief, task, /*is_server=*/false);
  };
  EXPECT_EQ(reason([](RunContract&) {}), "");
  EXPECT_EQ(reason([](RunContract& task) { task.replicas = task.threads_per_replica = 0; }), "");
  EXPECT_EQ(reason([](RunContract& task) { task.replicas = 3; }),
            "the chief's run has 4 replicas, this task was given 3; give all tasks the same, or 0 "
            "to take the chief's");
  EXPECT_EQ(reason([](RunContract& task) { task.threads_per_replica = 1; }),
            "the chief has 2 threads per replica, this task was given 1; give all tasks the same, "
            "or 0 to take the chief's");
  EXPECT_EQ(reason([](RunContract& task) { task.seed = 6; }),
            "the chief's seed is 5, this task's 6; give all tasks the same");
  EXPECT_EQ(reason([](RunContract& task) { task.precision = ComputeType::kBfloat16; }),
            "the chief's precision is float32, this task's bfloat16; give all tasks the same");
  EXPECT_EQ(reason([](RunContract& task) { task.arithmetic = "another"; }),
            "the chief computes with 'one', this task with 'another'; give all tasks the same "
            "libtorch, BLAS and kind of processor");
}

TEST(Coordinator, GivesTasksOfOneHostNeighbouringRanks) {
  Coordinator coordinator({.chief = "chief:0", .chief_address = "here:1", .trainers = 5});
  net::Listener listener("127.0.0.1:0", kCoordinator,
                         [&](auto connection) { coordinator.serve(std::move(connection)); });
  std::vector<std::unique_ptr<ByHand>> tasks;
  const auto join = [&](const std::string& task, const std::string& reached_at) {
    tasks.push_back(std::make_unique<ByHand>(listener.address(), task, reached_at));
  };
  join("worker:0", "there:1");
  join("worker:1", "here:2");
  join("worker:2", "elsewhere:1");
  join("worker:3", "there:2");
  join("chief:0", "here:1");
  EXPECT_THAT(tasks.front()->hear_members(),
              ElementsAre("chief:0", "worker:1", "worker:2", "worker:0", "worker:3"));
  coordinator.stop();
}

TEST(Coordinator, LetsNeighboursShareAProcessorWhereThereAreMoreTasks) {
  using Shares = std::vector<bool>;
  EXPECT_EQ(Coordinator::share(4, 4), Shares(4, false));
  EXPECT_EQ(Coordinator::share(5, 2), (Shares{false, true, true, false, true}));
  EXPECT_EQ(Coordinator::share(4, 1), (Shares{false, true, true, true}));
  // The system does not tell how many processors there are.
  EXPECT_EQ(Coordinator::share(2, 0), Shares(2, false));
  EXPECT_EQ(Coordinator::share(10, 4),
            (Shares{false, true, true, false, true, true, false, true, false, true}));
  // A power of two goes through the stages without neighbours that wait for another.
  EXPECT_EQ(std::ranges::count(Coordinator::share(30, 12), false), 8);
  EXPECT_EQ(std::ranges::count(Coordinator::share(64, 16), false), 16);
}

TEST(Coordinator, CountsTheProcessorsOfAHostOverItsTasks) {
  Coordinator coordinator({.chief = "chief:0", .chief_address = "here:1", .trainers = 7});
  net::Listener listener("127.0.0.1:0", kCoordinator,
                         [&](auto connection) { coordinator.serve(std::move(connection)); });
  std::vector<std::unique_ptr<ByHand>> tasks;
  const auto join = [&](const std::string& task, const std::string& reached_at,
                        const std::vector<std::int64_t>& processors) {
    tasks.push_back(std::make_unique<ByHand>(listener.address(), task, reached_at, processors));
  };
  // Three of each host on two processors, bound to one of them or not; but one on its own.
  join("worker:0", "here:2", {0});
  join("worker:1", "here:3", {1});
  join("worker:2", "there:1", {0, 1});
  join("worker:3", "there:2", {0, 1});
  join("worker:4", "there:3", {0, 1});
  join("worker:5", "yonder:1", {0});
  join("chief:0", "here:1", {0});
  EXPECT_THAT(tasks.front()->hear_members(),
              ElementsAre("chief:0", "+worker:0", "worker:1", "worker:2", "+worker:3", "worker:4",
                          "worker:5"));
  coordinator.stop();
}

TEST(Coordinator, BeginsOneGenerationForTasksThatComeTogether) {
  Coordinator coordinator({.chief = "chief:0", .trainers = 9, .least_trainers = 1});
  net::Listener listener("127.0.0.1:0", kCoordinator,
                         [&](auto connection) { coordinator.serve(std::move(connection)); });
  ByHand chief(listener.address(), "chief:0");
  EXPECT_THAT(chief.hear_members(), ElementsAre("chief:0"));
  std::vector<std::unique_ptr<ByHand>> workers;
  for (int i = 0; i < 8; ++i) {
    workers.push_back(std::make_unique<ByHand>(listener.address(), fmt::format("worker:{}", i)));
  }
  std::size_t generations = 0, members = 0;
  while (members < 9) {
    members = chief.hear_members().size();
    ++generations;
  }
  // One, unless this machine is very slow.
  EXPECT_LT(generations, 8U);
  coordinator.stop();
}

TEST(Coordinator, BeginsWithTheLeastWorkersAndWaitsWhenThereAreFewer) {
  Coordinator coordinator({.chief = "chief:0", .trainers = 4, .least_trainers = 2});
  net::Listener listener("127.0.0.1:0", kCoordinator,
                         [&](auto connection) { coordinator.serve(std::move(connection)); });
  ByHand chief(listener.address(), "chief:0");
  ByHand first(listener.address(), "worker:0");
  EXPECT_THAT(chief.hear_members(), ElementsAre("chief:0", "worker:0"));
  ByHand second(listener.address(), "worker:2");
  EXPECT_THAT(chief.hear_members(), ElementsAre("chief:0", "worker:0", "worker:2"));
  first.leave();
  EXPECT_THAT(chief.hear_members(), ElementsAre("chief:0", "worker:2"));
  // Without a worker nothing begins, until one comes.
  second.leave();
  ByHand third(listener.address(), "worker:1");
  std::vector<std::string> members;
  while (members != std::vector<std::string>{"chief:0", "worker:1"}) {
    members = chief.hear_members();
    ASSERT_GE(members.size(), 2U);
  }
  coordinator.stop();
}

TEST(Coordinator, EndsARunThatHasHadTooFewWorkersForTheJoinTimeout) {
  Coordinator coordinator(
      {.chief = "chief:0", .trainers = 3, .least_trainers = 2, .join_timeout = 50ms});
  net::Listener listener("127.0.0.1:0", kCoordinator,
                         [&](auto connection) { coordinator.serve(std::move(connection)); });
  ByHand chief(listener.address(), "chief:0");
  net::Frame frame = chief.hear();
  ASSERT_TRUE(is_message<RunFailed>(frame)) << describe_message(frame.type);
  EXPECT_THAT(decode<RunFailed>(std::move(frame)).why,
              ::testing::HasSubstr("1 more of at least 1 workers did not come within"));
  coordinator.stop();
}

TEST_F(CoordinatorTest, BeginsNoGenerationWithoutTheChief) {
  auto chief = task("chief:0");
  auto worker = task("worker:0");
  EXPECT_THAT(worker.hear_members(), ElementsAre("chief:0", "worker:0"));
  chief.leave();
  wait_until_gone(1);
  auto again = task("chief:0");
  EXPECT_THAT(worker.hear_members(), ElementsAre("chief:0", "worker:0"));
  EXPECT_THAT(again.hear_members(), ElementsAre("chief:0", "worker:0"));
}

TEST_F(CoordinatorTest, BeginsNoGenerationWhenTheChiefSavesTheLastStepWhoeverComesOrGoes) {
  auto chief = task("chief:0");
  auto lost = task("worker:0");
  EXPECT_THAT(lost.hear_members(), ElementsAre("chief:0", "worker:0"));
  EXPECT_THAT(chief.hear_members(), ElementsAre("chief:0", "worker:0"));
  coordinator_.announce_end();
  EXPECT_EQ(chief.hear_name(), "'run ending'");
  lost.leave();
  wait_until_gone(1);
  auto late = task("worker:0");
  EXPECT_EQ(late.hear_name(), "'run ending'");
  std::jthread ending([this] { coordinator_.end(7, /*signal=*/15); });
  EXPECT_EQ(chief.hear_name(), "'run ended'");
  EXPECT_EQ(decode<RunEnded>(late.hear()).signal, 15);
  late.leave();
}

}  // namespace
}  // namespace muster::internal
