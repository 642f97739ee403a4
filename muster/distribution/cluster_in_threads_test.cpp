// Whole clusters as threads of one process: membership, coordinator, servers and both strategies,
// where the thread sanitizer sees all of them.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint_parts.h"
#include "muster/distribution/collective.h"
#include "muster/distribution/membership/membership_internal.h"
#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/distribution/parameter_server/ps_strategy_internal.h"
#include "muster/distribution/parameter_server/update_policy_internal.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/model.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/platform/net/listener.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/engine/arithmetic.h"
#include "muster/train/engine/run_state.h"
#include "muster/train/engine/seeded_model.h"

namespace muster::internal {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::int64_t kSteps = 12;

/// Variables of several blocks, so that every server has some.
constexpr std::int64_t kSeveralBlocks = 70'000;
struct TwoKernels : Model {
  explicit TwoKernels(std::int64_t size) {
    first = register_parameter("first", torch::full({size}, 0.5F));
    second = register_parameter("second", torch::full({300}, -0.25F));
  }
  torch::Tensor forward(const Features&) override { return first; }
  torch::Tensor first;
  torch::Tensor second;
};

EstimatorOptions two_kernels(std::int64_t size = kSeveralBlocks) {
  return {.model = [size] { return std::make_shared<TwoKernels>(size); },
          .head = regression_head(),
          .optimizer = adam({.learning_rate = 0.01}),
          .clip = {.global_norm = 20.0}};
}

/// With variables that are updated as wholes, larger than a server's share of all.
struct ThreeVariables : Model {
  ThreeVariables() {
    vector = register_parameter("vector", torch::full({kSeveralBlocks}, 0.5F));
    factored = register_parameter("factored", torch::full({300, 600}, -0.25F));
    matrix = register_parameter("matrix", torch::full({700, 90}, 0.125F));
  }
  torch::Tensor forward(const Features&) override { return vector; }
  torch::Tensor vector, factored, matrix;
};

EstimatorOptions three_variables() {
  return {.model = [] { return std::make_shared<ThreeVariables>(); },
          .head = regression_head(),
          .optimizer = {{"vector", schedule_free_adam({.learning_rate = 0.01})},
                        {"factored", adafactor()},
                        {"matrix", lamb()}}};
}

/// A process that trains, without a model: the gradients of a replica are a function of its number
/// and the step.
class ThreadTask : public Participant {
 public:
  explicit ThreadTask(const RunConfig& config, std::int64_t size = kSeveralBlocks)
      : ThreadTask(config, two_kernels(size)) {}
  ThreadTask(const RunConfig& config, EstimatorOptions options)
      : config_(config),
        options_(std::move(options)),
        model_(options_.model()),
        variables_(
            Variables::adopt(*model_, adopt_options(variables_of(*model_), &options_.optimizer))),
        updater_(variables_, options_.optimizer),
        update_(variables_, updater_, options_.update_rules()) {}

  /// As a trainer does it. `leaves_at`: this task leaves before that step.
  void train(Strategy& strategy, std::int64_t leaves_at = -1) {
    strategy.membership().join(terms());
    if (on_joined) on_joined();
    strategy.attach(*this);
    for (;;) {
      try {
        strategy.membership().synchronize();
        if (make_steps(strategy, leaves_at)) finish(strategy, leaves_at);
        return;
      } catch (const PeersChanged&) {
        continue;
      }
    }
  }
  /// Makes all steps as one process would.
  void train_alone() {
    while (step_ < kSteps) {
      update(step_, sums(step_, {0, config_.reproducibility.replicas}));
      ++step_;
    }
  }

  /// Called when the chief has let this task in, and before each step.
  std::function<void()> on_joined{};
  std::function<void(std::int64_t step)> before_step{};
  /// Called by the chief before it ends the run.
  std::function<void(Strategy& strategy)> before_end{};

  std::int64_t step() const { return step_; }
  std::int64_t steps_made() const { return steps_made_; }
  /// Bytes of variables and slots, by name.
  std::map<std::string, std::string> bytes() {
    std::map<std::string, std::string> all;
    for (const NamedTensor& named : snapshot().tensors) {
      const auto memory = bytes_of(named.tensor);
      all[named.name].assign(reinterpret_cast<const char*>(memory.data()), memory.size());
    }
    return all;
  }

  const Variables& run_variables() const override { return variables_; }
  const Updater& run_updater() const override { return updater_; }
  const std::vector<at::Tensor>& buffers() const override { return buffers_; }
  InputPositions positions() override {
    return InputPositions(static_cast<std::size_t>(config_.reproducibility.replicas),
                          std::to_string(step_ + 1));
  }
  StepResult update(std::int64_t step, PartialSums total) override {
    const torch::NoGradGuard no_grad;
    StepResult result{.present = total.present, .examples = total.examples};
    Gradients mean = take_mean(total);
    update_.prepare(mean);
    update_.apply(mean, step, update_.norms(mean));
    return result;
  }
  StepResult prepare_local_gradients(PartialSums& own) override {
    return {.present = own.present, .examples = own.examples};
  }
  double decay_loss() const override { return 0; }
  RunSnapshot snapshot() override {
    RunSnapshot snapshot{
        .step = step_,
        .state_json = to_json(RunState{.global_step = step_,
                                       .replicas = config_.reproducibility.replicas,
                                       .inputs = positions()}),
        .tensors = variables_.tensors()};
    for (const NamedTensor& slot : updater_.tensors()) snapshot.tensors.push_back(slot);
    return snapshot;
  }
  void restore_snapshot(const RunSnapshot& from) override { step_ = from.step; }
  void roll_back_to_checkpoint() override { throw Internal("no server is lost in these tests"); }

 private:
  RunContract terms() const {
    return {.replicas = config_.reproducibility.replicas,
            .threads_per_replica = 1,
            .seed = config_.seed(),
            .arithmetic = numerics_fingerprint(true).fingerprint()};
  }
  Gradients gradients(std::int64_t replica, std::int64_t step) const {
    Gradients gradients = variables_.make_gradients();
    for (const Variable& variable : variables_.all()) {
      const at::Tensor of = gradients.of(variable);
      of.view({-1}).copy_(
          at::arange(of.numel(), at::kFloat).mul_(0.37F).add_(replica + 3 * step).sin_());
    }
    return gradients;
  }
  PartialSums sums(std::int64_t step, const ReplicaRange& replicas) const {
    const torch::NoGradGuard no_grad;
    PartialSums parts{.present = replicas.size(), .examples = 8 * replicas.size()};
    parts.losses.resize(static_cast<std::size_t>(config_.reproducibility.replicas));
    TreeSum<Gradients> sum(config_.reproducibility.replicas,
                           [](Gradients& into, Gradients&& from) { add_gradients(into, from); });
    for (std::int64_t replica = replicas.first; replica < replicas.last; ++replica) {
      sum.report(replica, gradients(replica, step));
      parts.losses[static_cast<std::size_t>(replica)] = at::full({}, 1.5F);
    }
    parts.sums = sum.take_parts();
    return parts;
  }
  // False when the run has ended.
  bool make_steps(Strategy& strategy, std::int64_t leaves_at) {
    while (step_ < kSteps && step_ != leaves_at) {
      if (before_step) before_step(step_);
      const auto result =
          strategy.reduction().apply(step_, sums(step_, strategy.membership().replicas()));
      if (!result) return false;
      step_ = result->step.value_or(step_ + 1);
      ++steps_made_;
    }
    return true;
  }
  void finish(Strategy& strategy, std::int64_t leaves_at) {
    if (config_.is_chief()) {
      if (before_end) before_end(strategy);
      strategy.reduction().fetch_slots();
      strategy.membership().announce_end();
      strategy.membership().end(step_, /*signal=*/0);
    } else {
      strategy.membership().leave(/*early=*/step_ == leaves_at);
    }
  }

  const RunConfig config_;
  const EstimatorOptions options_;
  const std::shared_ptr<Model> model_;
  Variables variables_;
  Updater updater_;
  HostUpdate update_;
  const std::vector<at::Tensor> buffers_;
  std::int64_t step_ = 0;
  std::int64_t steps_made_ = 0;
};

std::vector<std::string> free_addresses(std::size_t count) {
  std::vector<std::unique_ptr<net::Listener>> listeners;
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < count; ++i) {
    listeners.push_back(std::make_unique<net::Listener>(
        "127.0.0.1:0", net::Identity{.task = "test:0", .run_id = "test"},
        [](std::unique_ptr<net::Connection>) {}));
    addresses.push_back(listeners.back()->address());
  }
  return addresses;
}

/// A chief, workers and servers, each in a thread.
class ThreadCluster {
 public:
  ThreadCluster(std::size_t workers, std::size_t servers, const RunConfig& like,
                EstimatorOptions options = two_kernels())
      : like_(like), options_(std::move(options)), workers_(workers), servers_(servers) {
    const auto addresses = free_addresses(1 + workers + servers);
    const auto list = [&](std::size_t first, std::size_t count) {
      std::string text;
      for (std::size_t i = first; i < first + count; ++i) {
        text += (text.empty() ? "\"" : ", \"") + addresses[i] + "\"";
      }
      return text;
    };
    cluster_ = fmt::format(R"({{"chief": [{}])", list(0, 1));
    if (workers > 0) cluster_ += fmt::format(R"(, "worker": [{}])", list(1, workers));
    if (servers > 0) cluster_ += fmt::format(R"(, "ps": [{}])", list(1 + workers, servers));
    cluster_ += "}";
  }
  ~ThreadCluster() { threads_.clear(); }

  RunConfig config(const std::string& job, std::size_t index) const {
    RunConfig config = like_;
    config.reproducibility.tf_random_seed = 5;
    config.log_step_count_steps = 0;
    config.cluster.task = parse_tf_config(fmt::format(
        R"({{"cluster": {}, "task": {{"type": "{}", "index": {}}}}})", cluster_, job, index));
    return config;
  }
  /// In a thread of its own; what it throws fails the test.
  void start(std::function<void()> work) {
    threads_.emplace_back([this, work = std::move(work)] {
      try {
        work();
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex_);
        errors_.emplace_back(error.what());
      }
    });
  }
  void start_servers() {
    for (std::size_t i = 0; i < servers_; ++i) {
      start([this, config = config("ps", i)] { serve_in_thread(options_, config, {}); });
    }
  }
  using Make = std::function<std::unique_ptr<Strategy>(const RunConfig&)>;
  /// The chief is the last of them.
  std::vector<std::unique_ptr<ThreadTask>> train(const Make& make) {
    std::vector<std::unique_ptr<ThreadTask>> tasks;
    const auto add = [&](const RunConfig& config) {
      tasks.push_back(std::make_unique<ThreadTask>(config, options_));
      start([task = tasks.back().get(), make, config] {
        const auto strategy = make(config);
        task->train(*strategy);
      });
    };
    start_servers();
    for (std::size_t i = 0; i < workers_; ++i) add(config("worker", i));
    add(config("chief", 0));
    join();
    return tasks;
  }
  void join() {
    threads_.clear();
    for (const std::string& error : errors_) ADD_FAILURE() << error;
  }

 private:
  const RunConfig like_;
  const EstimatorOptions options_;
  const std::size_t workers_;
  const std::size_t servers_;
  std::string cluster_;
  std::mutex mutex_;
  std::vector<std::string> errors_;
  std::vector<std::jthread> threads_;
};

RunConfig with_replicas(std::int64_t replicas) {
  RunConfig config;
  config.reproducibility.replicas = replicas;
  config.reproducibility.threads_per_replica = 1;
  return config;
}

void expect_bits_of_one_process(ThreadTask& task, std::int64_t replicas,
                                const EstimatorOptions& options) {
  ThreadTask alone(with_replicas(replicas), options);
  alone.train_alone();
  EXPECT_EQ(task.step(), kSteps);
  const auto bytes = task.bytes();
  for (const auto& [name, expected] : alone.bytes())
    EXPECT_TRUE(bytes.at(name) == expected) << name;
}

void expect_bits_of_one_process(ThreadTask& task, std::int64_t replicas,
                                std::int64_t size = kSeveralBlocks) {
  expect_bits_of_one_process(task, replicas, two_kernels(size));
}

std::unique_ptr<Strategy> sliced_collective(const RunConfig& config) {
  return make_collective(config, {.slice_above = 1024});
}

TEST(ClusterInThreads, ACollectiveComesToTheBitsOfOneProcess) {
  ThreadCluster cluster(2, 0, with_replicas(4));
  const auto tasks = cluster.train(sliced_collective);
  expect_bits_of_one_process(*tasks.back(), 4);
  // The chief may end the run before others have made the last step.
  for (const auto& task : tasks) {
    if (task->step() == kSteps) expect_bits_of_one_process(*task, 4);
  }
}

struct Layout {
  std::size_t tasks;
  std::int64_t replicas;
  bool is_sliced;
};
class CollectiveInThreads : public ::testing::TestWithParam<Layout> {};

TEST_P(CollectiveInThreads, ComesToTheBitsOfOneProcess) {
  const auto [count, replicas, is_sliced] = GetParam();
  ThreadCluster cluster(count - 1, 0, with_replicas(replicas));
  const std::int64_t slice_above = is_sliced ? 1024 : std::int64_t{1} << 30;
  const auto tasks = cluster.train([&](const RunConfig& config) {
    return make_collective(config, {.slice_above = slice_above, .slice_piece = 3'000});
  });
  expect_bits_of_one_process(*tasks.back(), replicas);
}

// Numbers of tasks that are a power of two and not, and replicas that tasks have evenly, unevenly,
// across the tree, and less of than there are tasks.
INSTANTIATE_TEST_SUITE_P(Each, CollectiveInThreads,
                         ::testing::Values(Layout{2, 2, true}, Layout{2, 5, false},
                                           Layout{3, 3, true}, Layout{4, 7, true},
                                           Layout{5, 8, true}, Layout{5, 8, false},
                                           Layout{6, 11, true}, Layout{7, 3, true},
                                           Layout{8, 8, false}, Layout{8, 13, true}),
                         [](const auto& one) {
                           return fmt::format("{}Tasks{}Replicas{}", one.param.tasks,
                                              one.param.replicas,
                                              one.param.is_sliced ? "InSlices" : "");
                         });

TEST(ClusterInThreads, CompressedSlicesGiveAllTasksTheSameBits) {
  ThreadCluster cluster(4, 0, with_replicas(5));
  const auto tasks = cluster.train([](const RunConfig& config) {
    return make_collective(config, {.slice_above = 1024, .compresses_slices = true});
  });
  ThreadTask alone(with_replicas(5));
  alone.train_alone();
  auto bytes = tasks.back()->bytes();
  EXPECT_NE(bytes.at("first"), alone.bytes().at("first"));
  for (const auto& task : tasks) {
    if (task->step() == kSteps) EXPECT_EQ(task->bytes(), bytes);
  }
}

TEST(ClusterInThreads, ATaskThatDoesNotCompressIsRefused) {
  ThreadCluster cluster(1, 0, with_replicas(2));
  const RunConfig chief_config = cluster.config("chief", 0);
  ThreadTask chief(chief_config);
  cluster.start([&] { chief.train(*sliced_collective(chief_config)); });
  cluster.start([config = cluster.config("worker", 0)] {
    ThreadTask worker(config);
    EXPECT_THAT(testing::message_of(
                    [&] { worker.train(*make_collective(config, {.compresses_slices = true})); }),
                HasSubstr("transfer of gradients"));
  });
  cluster.join();
  expect_bits_of_one_process(chief, 2);
}

TEST(ClusterInThreads, AWorkerThatLeavesAndOneThatComesBackChangeNothing) {
  ThreadCluster cluster(2, 0, with_replicas(3));
  const RunConfig chief_config = cluster.config("chief", 0);
  ThreadTask chief(chief_config);
  std::latch is_back(1);
  chief.before_step = [&](std::int64_t step) {
    if (step == 8) is_back.wait();
  };
  cluster.start([&] { chief.train(*sliced_collective(chief_config)); });
  const RunConfig stays_config = cluster.config("worker", 0);
  ThreadTask stays(stays_config);
  cluster.start([&] { stays.train(*sliced_collective(stays_config)); });
  cluster.start([&is_back, config = cluster.config("worker", 1)] {
    ThreadTask leaves(config);
    leaves.train(*sliced_collective(config), /*leaves_at=*/4);
    EXPECT_EQ(leaves.step(), 4);
    ThreadTask again(config);
    again.on_joined = [&is_back] { is_back.count_down(); };
    again.train(*sliced_collective(config));
    EXPECT_GE(again.steps_made(), 3);
  });
  cluster.join();
  expect_bits_of_one_process(chief, 3);
  if (stays.step() == kSteps) expect_bits_of_one_process(stays, 3);
}

TEST(ClusterInThreads, ServersThatWaitForAllComeToTheBitsOfOneProcess) {
  ThreadCluster cluster(2, 2, with_replicas(4));
  const auto tasks =
      cluster.train([](const RunConfig& config) { return make_parameter_server(config); });
  expect_bits_of_one_process(*tasks.back(), 4);
}

TEST(ClusterInThreads, ServersKeepVariablesWholeThatAreUpdatedSo) {
  ThreadCluster cluster(1, 2, with_replicas(3), three_variables());
  const auto tasks =
      cluster.train([](const RunConfig& config) { return make_parameter_server(config); });
  expect_bits_of_one_process(*tasks.back(), 3, three_variables());
}

TEST(ClusterInThreads, ServersWriteTheirPartsOfACheckpoint) {
  const testing::TempDir folder;
  RunConfig like = with_replicas(2);
  like.model_dir = folder.path();
  ThreadCluster cluster(0, 2, like);
  cluster.start_servers();
  const RunConfig config = cluster.config("chief", 0);
  ThreadTask chief(config);
  std::vector<std::string> indexes;
  // Two at once, as when a checkpoint is begun while the one before is written.
  chief.before_end = [&](Strategy& strategy) {
    const auto first = strategy.reduction().begin_parts(11);
    const auto second = strategy.reduction().begin_parts(kSteps);
    ASSERT_TRUE(first && second);
    EXPECT_TRUE(second->contains("second") && !second->contains("first"));
    first->wait();
    indexes = second->indexes();
  };
  cluster.start([&] { chief.train(*make_parameter_server(config, {.part_bytes = 0})); });
  cluster.join();
  EXPECT_EQ(indexes.size(), 2U);
  expect_bits_of_one_process(chief, 2);
}

/// A server whose group breaks when the test wants it to, as by the loss of a worker that this
/// server hears of first. It tells no other task until `goes_on`.
class BrokenServer {
 public:
  explicit BrokenServer(const RunConfig& config) : config_(config) {}

  void serve(const EstimatorOptions& options, std::latch& goes_on) {
    ParameterShard held(options, config_, {});
    const auto policy = make_sync_updates(held, options, {});
    held.membership.join(policy->terms(held.own_terms()));
    const torch::NoGradGuard no_grad;
    policy->prepare();
    for (bool going_on = true; going_on;) {
      going_on = join_generation(held, *policy);
      group_ = held.group;
      try {
        while (going_on && policy->serve_next()) continue;
        going_on = false;
      } catch (const PeersChanged&) {
        is_broken_.count_down();
        goes_on.wait();
      }
    }
    held.membership.leave(/*early=*/false);
  }
  void break_group() {
    group_.load()->interrupt("a test");
    is_broken_.wait();
  }

 private:
  const RunConfig config_;
  std::atomic<Group*> group_ = nullptr;
  std::latch is_broken_{1};
};

TEST(ClusterInThreads, APartIsAskedForAgainWhenTheRequestWasLostWithItsGeneration) {
  const testing::TempDir folder;
  RunConfig like = with_replicas(2);
  like.model_dir = folder.path();
  ThreadCluster cluster(0, 2, like);
  std::latch goes_on{1};
  BrokenServer broken(cluster.config("ps", 1));
  // Each is one server's, which sends nothing when it writes its part.
  constexpr std::int64_t kOneBlock = 300;
  cluster.start(
      [config = cluster.config("ps", 0)] { serve_in_thread(two_kernels(kOneBlock), config, {}); });
  cluster.start([&] { broken.serve(two_kernels(kOneBlock), goes_on); });
  const RunConfig config = cluster.config("chief", 0);
  ThreadTask chief(config, kOneBlock);
  int times = 0;
  std::vector<std::string> indexes;
  chief.before_end = [&](Strategy& strategy) {
    if (++times > 1) {
      indexes = strategy.reduction().begin_parts(kSteps)->indexes();
      return;
    }
    // All see the folder.
    strategy.reduction().begin_parts(11)->wait();
    broken.break_group();
    // The request goes out before the chief hears of it.
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      goes_on.count_down();
    });
    EXPECT_THROW(strategy.reduction().begin_parts(kSteps), PeersChanged);
    throw PeersChanged("a test");
  };
  cluster.start([&] { chief.train(*make_parameter_server(config, {.part_bytes = 0})); });
  cluster.join();
  EXPECT_EQ(times, 2);
  EXPECT_EQ(indexes.size(), 2U);
  expect_bits_of_one_process(chief, 2, kOneBlock);
}

TEST(ClusterInThreads, ServersMakeStepsWithoutTheLastReplicas) {
  RunConfig config = with_replicas(3);
  config.cluster.backup_replicas = 1;
  ThreadCluster cluster(2, 2, config);
  const auto tasks = cluster.train([](const RunConfig& run) { return make_parameter_server(run); });
  EXPECT_EQ(tasks.back()->step(), kSteps);
  // With one replica less the sums are others, unless all were in time for every step.
  for (const auto& task : tasks) EXPECT_LE(task->steps_made(), kSteps);
}

class AsyncInThreads : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(AsyncInThreads, EveryPushIsAnUpdate) {
  RunConfig config = with_replicas(3);
  config.cluster.sync = false;
  config.cluster.max_staleness = GetParam();
  ThreadCluster cluster(2, 2, config);
  std::mutex mutex;
  std::vector<std::string> ends;
  log::set_sink([&](log::Level, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (line.find("the run has ended at step") != line.npos) ends.emplace_back(line);
  });
  const auto tasks = cluster.train([](const RunConfig& run) { return make_parameter_server(run); });
  log::set_sink({});
  // The task that sees the last step ends; pushes of the two others under way may count or not.
  std::int64_t made = 0;
  for (const auto& task : tasks) made += task->steps_made();
  EXPECT_GE(tasks.back()->step(), kSteps);
  EXPECT_GE(made, kSteps - 2);
  EXPECT_LE(made, kSteps + 2);
  EXPECT_EQ(ends.size(), 2U);
  EXPECT_THAT(ends, Each(HasSubstr("0 pushes were too old")));
}

INSTANTIATE_TEST_SUITE_P(Each, AsyncInThreads, ::testing::Values(0, 2),
                         [](const auto& one) { return "Staleness" + std::to_string(one.param); });

TEST(ClusterInThreads, ATaskOfOtherTermsIsRefusedAndTheOthersGoOn) {
  ThreadCluster cluster(1, 0, with_replicas(2));
  const RunConfig chief_config = cluster.config("chief", 0);
  ThreadTask chief(chief_config);
  cluster.start([&] { chief.train(*sliced_collective(chief_config)); });
  cluster.start([config = cluster.config("worker", 0)] {
    Membership membership(config, {});
    EXPECT_THAT(
        testing::message_of([&] {
          membership.join(
              {.replicas = 2, .seed = 6, .arithmetic = numerics_fingerprint(true).fingerprint()});
        }),
        HasSubstr("the chief's seed is 5, this task's 6"));
  });
  cluster.join();
  expect_bits_of_one_process(chief, 2);
}

}  // namespace
}  // namespace muster::internal
