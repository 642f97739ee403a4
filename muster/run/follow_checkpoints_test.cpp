#include "muster/run/distributed_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <future>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/nn/api.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using small_net::error_of;
using small_net::quiet_config;
using ::testing::HasSubstr;
using testing::TempDir;

struct FollowedNet : torch::nn::Module {
  FollowedNet() {
    hidden = register_module("hidden", torch::nn::Linear(3, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm->forward(hidden->forward(x)); }
  torch::nn::Linear hidden{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

std::unique_ptr<DistributedSession> session_in(const RunConfig& config, std::int64_t last_step) {
  return std::make_unique<DistributedSession>(
      HandWrittenModel{.module = [] { return std::make_shared<FollowedNet>(); },
                       .optimizer = sgd({.learning_rate = 0.1})},
      DistributedSessionOptions{.config = config, .last_step = last_step});
}

void train(DistributedSession& session) {
  while (!session.should_stop()) {
    session.run<FollowedNet>([](FollowedNet& net, const ReplicaBatch& at) {
      const torch::Tensor x = torch::arange(6, torch::kFloat).view({2, 3}) + at.number;
      return net.forward(x).pow(3).mean();
    });
  }
}

TEST(FollowCheckpoints, EndsWithTheLastStep) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.checkpoints.save_checkpoints_steps = 2;
  std::vector<std::int64_t> steps;
  auto following = std::async(std::launch::async, [&] {
    follow_checkpoints(config, {.last_step = 5}, [&](const Path& checkpoint) {
      steps.push_back(checkpoint_step(checkpoint).value_or(-1));
      return true;
    });
  });
  const auto session = session_in(config, 5);
  train(*session);
  session->close();
  following.get();
  EXPECT_EQ(steps.back(), 5);
}

TEST(FollowCheckpoints, EndsWhenTheChiefSaysThatTheRunIsOver) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.cluster.task =
      parse_tf_config(R"({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}})");
  config.cluster.session_creation_timeout_secs = std::chrono::seconds(100);
  std::vector<std::int64_t> steps;
  auto following = std::async(std::launch::async, [&] {
    follow_checkpoints(config, {}, [&](const Path& checkpoint) {
      steps.push_back(checkpoint_step(checkpoint).value_or(-1));
      return true;
    });
  });
  const auto session = session_in(config, 3);
  train(*session);
  session->close();
  following.get();
  EXPECT_EQ(steps.back(), 3);
}

TEST(FollowCheckpoints, EndsWhenTheFunctionSaysSo) {
  const TempDir folder;
  const RunConfig config = quiet_config(folder.path());
  const auto session = session_in(config, 3);
  train(*session);
  session->close();
  int calls = 0;
  follow_checkpoints(config, {}, [&](const Path&) { return ++calls, false; });
  EXPECT_EQ(calls, 1);
}

TEST(FollowCheckpoints, NamesTheFolderWhereNothingComes) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.cluster.session_creation_timeout_secs = std::chrono::seconds(1);
  const auto follow = [&](const RunConfig& run, const FollowCheckpointsOptions& options) {
    return error_of([&] { follow_checkpoints(run, options, [](const Path&) { return true; }); });
  };
  EXPECT_THAT(follow(config, {}), HasSubstr(folder.path().string()));
  EXPECT_THAT(follow({}, {}), HasSubstr("model_dir is not set"));
  EXPECT_THAT(follow(config, {.last_step = 0}), HasSubstr("last_step must be positive"));
}

TEST(LoadCheckpoint, GivesAModuleWhatASessionSaved) {
  const TempDir folder;
  const RunConfig config = quiet_config(folder.path());
  const auto session = session_in(config, 4);
  train(*session);
  session->close();
  const auto net = std::make_shared<FollowedNet>();
  const FollowedNet& loaded = *net;
  load_checkpoint(*latest_checkpoint(folder.path()), net);
  const auto& trained = dynamic_cast<FollowedNet&>(session->module());
  EXPECT_TRUE(torch::equal(loaded.hidden->weight, trained.hidden->weight));
  EXPECT_TRUE(torch::equal(loaded.norm->running_mean, trained.norm->running_mean));
  EXPECT_FALSE(torch::equal(loaded.norm->running_mean, torch::zeros({4})));
  EXPECT_TRUE(loaded.hidden->weight.requires_grad());
}

TEST(LoadCheckpoint, NamesWhatDoesNotFit) {
  const TempDir folder;
  const auto session = session_in(quiet_config(folder.path()), 1);
  train(*session);
  session->close();
  const auto other = std::make_shared<torch::nn::LinearImpl>(3, 4);
  EXPECT_THAT(error_of([&] { load_checkpoint(*latest_checkpoint(folder.path()), other); }),
              HasSubstr("model/kernel"));
}

/// A step composed of the parts that a trainer is made of.
class LoopByHand {
 public:
  LoopByHand() {
    for (const auto& more : {updater_.tensors(), average_.tensors()}) {
      state_.insert(state_.end(), more.begin(), more.end());
    }
  }
  const std::vector<NamedTensor>& state() const { return state_; }

  void make_step(std::int64_t step) {
    const torch::Tensor x = torch::arange(6, torch::kFloat).view({2, 3}) + step;
    attached_.zero();
    net_->forward(x).pow(3).mean().backward();
    attached_.collect();
    update_.prepare(attached_.gradients());
    const SquareSums norms = update_.norms(attached_.gradients());
    if (update_.is_finite(attached_.gradients(), norms)) {
      update_.apply(attached_.gradients(), step, norms);
    }
  }

 private:
  static std::shared_ptr<FollowedNet> make_net() {
    torch::manual_seed(1);
    return std::make_shared<FollowedNet>();
  }

  std::shared_ptr<FollowedNet> net_ = make_net();
  Variables variables_ = Variables::adopt(*net_);
  AttachedModule attached_ = variables_.attach(net_);
  Updater updater_{variables_, {{"", adam({.learning_rate = 0.1})}}};
  MovingAverage average_{variables_, {.decay = 0.9}};
  HostUpdate update_{
      variables_,
      updater_,
      {.weight_decay = {.factor = 0.01}, .clip = {.global_norm = 1.0}, .checks_gradients = true},
      &average_};
  std::vector<NamedTensor> state_ = variables_.tensors();
};

TEST(CheckpointByHand, ALoopResumesExactly) {
  const TempDir folder;
  LoopByHand whole;
  LoopByHand first;
  LoopByHand second;
  EXPECT_EQ(restore_checkpoint(folder / "run", first.state()), std::nullopt);
  for (std::int64_t step = 0; step < 8; ++step) whole.make_step(step);
  for (std::int64_t step = 0; step < 5; ++step) first.make_step(step);
  const Path prefix = save_checkpoint(folder / "run", 5, first.state());
  EXPECT_EQ(prefix.filename(), "model.ckpt-5");
  EXPECT_EQ(restore_checkpoint(folder / "run", second.state()), 5);
  for (std::int64_t step = 5; step < 8; ++step) second.make_step(step);
  ASSERT_GT(whole.state().size(), 10U);
  // The weights have moved since step 5, or nothing would be compared.
  EXPECT_FALSE(torch::equal(whole.state()[0].tensor, first.state()[0].tensor));
  for (std::size_t i = 0; i < whole.state().size(); ++i) {
    EXPECT_TRUE(torch::equal(whole.state()[i].tensor, second.state()[i].tensor))
        << whole.state()[i].name;
  }
}

TEST(CheckpointByHand, SaysWhatDoesNotFit) {
  const TempDir folder;
  save_checkpoint(folder.path(), 1, {{"w", torch::zeros({2})}});
  EXPECT_THAT(error_of([&] {
                restore_checkpoint(folder.path(), {{"v", torch::zeros({2})}});
              }),
              HasSubstr("v"));
  EXPECT_THAT(error_of([&] {
                restore_checkpoint(folder.path(), {{"w", torch::zeros({3})}});
              }),
              ::testing::AllOf(HasSubstr("w"), HasSubstr("3")));
  EXPECT_THAT(
      error_of([&] {
        save_checkpoint(folder.path(), 2, {{"w", torch::zeros({2})}, {"w", torch::zeros({2})}});
      }),
      HasSubstr("two tensors are called 'w'"));
}

}  // namespace
}  // namespace muster
