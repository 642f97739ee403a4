#include "muster/run/distributed_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/signals.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/nn/device/gpu.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"
#include "muster/train/hooks/stop_hooks.h"

namespace muster {
namespace {

using small_net::error_of;
using small_net::latest_values;
using small_net::quiet_config;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;
using ::testing::UnorderedElementsAre;

// A module that knows nothing of muster, with libtorch's own random numbers.
struct Net : torch::nn::Module {
  Net() {
    hidden = register_module("hidden", torch::nn::Linear(4, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    dropout = register_module("dropout", torch::nn::Dropout(0.3));
    out = register_module("out", torch::nn::Linear(8, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return out->forward(dropout->forward(torch::relu(norm->forward(hidden->forward(x)))));
  }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

HandWrittenModel net_model() {
  return {.module = [] { return std::make_shared<Net>(); },
          .optimizer = adam({.learning_rate = 0.01}),
          .clip = {.global_norm = 1.0}};
}

// A batch that is a function of its place.
torch::Tensor numbers_of(const ReplicaBatch& at) {
  Random random(17, static_cast<std::uint64_t>(at.replica), static_cast<std::uint64_t>(at.number));
  std::vector<float> values;
  for (int i = 0; i < 32; ++i) values.push_back(static_cast<float>(random.uniform(-1, 1)));
  return torch::tensor(values).view({8, 4});
}

torch::Tensor loss_of(Net& net, const ReplicaBatch& at) {
  const torch::Tensor x = numbers_of(at);
  return (net.forward(x) - x.sum(1, true)).pow(2).mean();
}

DistributedSessionOptions options_in(const Path& folder, std::int64_t replicas = 1) {
  DistributedSessionOptions options{.config = quiet_config(folder)};
  options.config.reproducibility.replicas = replicas;
  return options;
}

std::int64_t train_to(const Path& folder, std::int64_t last_step, std::int64_t replicas = 1,
                      int concurrent = 1) {
  DistributedSessionOptions options = options_in(folder, replicas);
  options.last_step = last_step;
  options.config.devices.concurrent_replicas = concurrent;
  DistributedSession session(net_model(), options);
  while (!session.should_stop()) session.run<Net>(loss_of);
  return session.close().global_step;
}

TEST(DistributedSession, MakesStepsUntilTheLastAndSavesIt) {
  const TempDir folder;
  DistributedSessionOptions options = options_in(folder.path());
  options.last_step = 30;
  DistributedSession session(net_model(), options);
  EXPECT_EQ(session.global_step(), 0);
  EXPECT_FALSE(session.loss().has_value());
  EXPECT_TRUE(session.is_chief());
  std::vector<double> losses;
  while (!session.should_stop()) {
    session.run<Net>(loss_of);
    losses.push_back(*session.loss());
    EXPECT_EQ(session.global_step(), static_cast<std::int64_t>(losses.size()));
  }
  EXPECT_EQ(losses.size(), 30U);
  EXPECT_LT(losses.back(), losses.front());
  const TrainResult result = session.close();
  EXPECT_EQ(result.global_step, 30);
  EXPECT_EQ(result.loss, losses.back());
  EXPECT_EQ(checkpoint_step(*latest_checkpoint(folder.path())), 30);
}

TEST(DistributedSession, AResumedRunEndsWithTheSameValues) {
  const TempDir folder;
  train_to(folder / "whole", 12, 2);
  train_to(folder / "parts", 5, 2);
  EXPECT_EQ(train_to(folder / "parts", 12, 2), 12);
  EXPECT_EQ(latest_values(folder / "parts"), latest_values(folder / "whole"));
}

TEST(DistributedSession, HowManyReplicasRunAtATimeChangesNothing) {
  const TempDir folder;
  train_to(folder / "one", 6, 3, 1);
  train_to(folder / "three", 6, 3, 3);
  EXPECT_EQ(latest_values(folder / "three"), latest_values(folder / "one"));
  train_to(folder / "two replicas", 6, 2);
  EXPECT_NE(latest_values(folder / "two replicas"), latest_values(folder / "one"));
}

TEST(DistributedSession, EveryReplicaIsToldItsPlace) {
  const TempDir folder;
  DistributedSession session(net_model(), options_in(folder.path(), 2));
  std::vector<std::string> places;
  for (int i = 0; i < 2; ++i) {
    session.run<Net>([&](Net& net, const ReplicaBatch& at) {
      places.push_back(fmt::format("{}/{} {}", at.replica, at.replicas, at.number));
      return loss_of(net, at);
    });
  }
  session.close();
  // One at a time, in whatever order.
  EXPECT_THAT(places, UnorderedElementsAre("0/2 0", "1/2 0", "0/2 1", "1/2 1"));
}

TEST(DistributedSession, GivesTheBatchesOfItsInputAndEndsWithIt) {
  const TempDir folder;
  DistributedSessionOptions options = options_in(folder.path());
  options.input_fn = [](const InputContext& in) {
    return range(10).shard(in).batch(4, [](std::span<const std::int64_t> numbers) {
      return Batch{
          .features = {{"number", torch::tensor(at::ArrayRef(numbers.data(), numbers.size()))}}};
    });
  };
  DistributedSession session(net_model(), options);
  std::vector<std::int64_t> firsts;
  while (!session.should_stop()) {
    session.run<Net>([&](Net& net, const ReplicaBatch& at) {
      EXPECT_EQ(at.batch.features.size(), 1U);
      firsts.push_back(at.batch.features.tensor("number")[0].item<std::int64_t>());
      return loss_of(net, at);
    });
  }
  EXPECT_THAT(firsts, ElementsAre(0, 4, 8));
  EXPECT_EQ(session.close().global_step, 3);
}

TEST(DistributedSession, ClosedEarlyItMakesNoMoreSteps) {
  const TempDir folder;
  DistributedSession session(net_model(), options_in(folder.path()));
  session.run<Net>(loss_of);
  session.run<Net>(loss_of);
  EXPECT_EQ(session.close().global_step, 2);
  EXPECT_EQ(checkpoint_step(*latest_checkpoint(folder.path())), 2);
  EXPECT_TRUE(session.should_stop());
  EXPECT_THAT(error_of([&] { session.run<Net>(loss_of); }), HasSubstr("has ended at step 2"));
}

TEST(DistributedSession, WithNothingToDoItStopsAtOnce) {
  const TempDir folder;
  train_to(folder.path(), 3);
  DistributedSessionOptions options = options_in(folder.path());
  options.last_step = 3;
  DistributedSession session(net_model(), options);
  EXPECT_TRUE(session.should_stop());
  EXPECT_EQ(session.close().steps, 0);
}

TEST(DistributedSession, HooksSeeItsStepsAndMayEndIt) {
  const TempDir folder;
  DistributedSessionOptions options = options_in(folder.path());
  options.hooks = {std::make_shared<StopAtStepHook>(StopAtStepOptions{.num_steps = 4})};
  DistributedSession session(net_model(), options);
  while (!session.should_stop()) session.run<Net>(loss_of);
  EXPECT_EQ(session.close().global_step, 4);
}

TEST(DistributedSession, AnErrorOfTheStepComesOutOfRun) {
  const TempDir folder;
  DistributedSession session(net_model(), options_in(folder.path()));
  const std::string error = error_of([&] {
    session.run<Net>([](Net&, const ReplicaBatch&) -> torch::Tensor {
      throw InvalidArgument("the tank is empty");
    });
  });
  EXPECT_THAT(error, HasSubstr("the tank is empty"));
  EXPECT_TRUE(session.should_stop());
  EXPECT_THAT(error_of([&] { session.close(); }), HasSubstr("the tank is empty"));
}

TEST(DistributedSession, LeftWithoutCloseItSavesNothing) {
  const TempDir folder;
  {
    DistributedSession session(net_model(), options_in(folder.path()));
    session.run<Net>(loss_of);
  }
  const auto latest = latest_checkpoint(folder.path());
  EXPECT_EQ(latest ? checkpoint_step(*latest).value_or(-1) : 0, 0);
}

TEST(DistributedSession, ASignalEndsItWithTheLastStepSaved) {
  const TempDir folder;
  DistributedSession session(net_model(), options_in(folder.path()));
  session.run<Net>(loss_of);
  ::raise(SIGTERM);
  while (!session.should_stop()) session.run<Net>(loss_of);
  EXPECT_THROW(session.close(), Interrupted);
  StopSignals::reset();
  EXPECT_EQ(checkpoint_step(*latest_checkpoint(folder.path())), session.global_step());
}

TEST(DistributedSession, ItsModuleHasTheValuesBetweenSteps) {
  const TempDir folder;
  DistributedSession session(net_model(), options_in(folder.path()));
  auto& net = dynamic_cast<Net&>(session.module());
  const torch::Tensor before = net.out->bias.detach().clone();
  session.run<Net>(loss_of);
  EXPECT_FALSE(torch::equal(net.out->bias, before));
  session.close();
}

// Parameters, then buffers of floats.
std::vector<torch::Tensor> values_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> values;
  for (const auto& parameter : module.parameters()) values.push_back(parameter.detach().cpu());
  for (const auto& buffer : module.buffers()) {
    if (buffer.is_floating_point()) values.push_back(buffer.cpu());
  }
  for (auto& value : values) value = value.clone();
  return values;
}

/// A session that trains on that device, with its variables on the CPU.
class SessionOnDevice : public ::testing::TestWithParam<std::string> {};

TEST_P(SessionOnDevice, ItsModuleHasTheValuesThatAreSaved) {
  if (GetParam() != "cpu" && gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TempDir folder;
  DistributedSessionOptions options = options_in(folder.path(), 2);
  options.config.devices.names = {GetParam()};
  options.config.devices.variable_strategy = VariableStrategy::kCpu;
  DistributedSession session(net_model(), options);
  const auto step = [](Net& net, const ReplicaBatch& at) {
    const torch::Tensor x = numbers_of(at).to(net.out->bias.device());
    return (net.forward(x) - x.sum(1, true)).pow(2).mean();
  };
  session.run<Net>(step);
  session.run<Net>(step);
  const auto between_steps = values_of(session.module());
  session.close();
  const auto saved = std::make_shared<Net>();
  load_checkpoint(*latest_checkpoint(folder.path()), saved);
  const auto expected = values_of(*saved);
  const auto at_end = values_of(session.module());
  ASSERT_EQ(between_steps.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(between_steps[i], expected[i])) << i;
    EXPECT_TRUE(torch::equal(at_end[i], expected[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SessionOnDevice, ::testing::Values("cpu", "cuda:0"));

TEST(DistributedSession, RefusesWhatCannotWork) {
  const TempDir folder;
  EXPECT_THAT(error_of([&] { DistributedSession({}, options_in(folder.path())); }),
              HasSubstr("the module factory is not set"));
  EXPECT_THAT(error_of([&] {
                DistributedSession({.module = [] { return std::make_shared<Net>(); }},
                                   options_in(folder.path()));
              }),
              HasSubstr("no optimizer"));
  DistributedSessionOptions evaluator = options_in(folder.path());
  evaluator.task_spec =
      TaskSpecDef(
          {.type = "worker", .index = 1, .ps_hosts = {"a:1"}, .worker_hosts = {"b:1", "c:1"}})
          .use_last_worker_as_evaluator();
  EXPECT_THAT(error_of([&] { DistributedSession(net_model(), evaluator); }),
              HasSubstr("evaluator:0, which does not train"));
  DistributedSession session(net_model(), options_in(folder.path()));
  EXPECT_THAT(error_of([&] {
                session.run<torch::nn::LinearImpl>(
                    [](torch::nn::LinearImpl&, const ReplicaBatch&) { return torch::Tensor(); });
              }),
              HasSubstr("the module is a"));
}

}  // namespace
}  // namespace muster
