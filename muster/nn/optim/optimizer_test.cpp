#include "muster/nn/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

TEST(Optimizer, HasTensorFlowsConstantsByDefault) {
  const Optimizer any = optimizer_by_name("Adam", 0.001);
  const auto& options = std::get<AdamOptions>(any.options());
  EXPECT_EQ(options.beta1, 0.9);
  EXPECT_EQ(options.beta2, 0.999);
  EXPECT_EQ(options.epsilon, 1e-8);
  EXPECT_EQ(RmsPropOptions{.learning_rate = 1}.decay, 0.9);
  EXPECT_EQ(RmsPropOptions{.learning_rate = 1}.momentum, 0.0);
  EXPECT_EQ(RmsPropOptions{.learning_rate = 1}.epsilon, 1e-10);
  EXPECT_EQ(FtrlOptions{.learning_rate = 1}.learning_rate_power, -0.5);
  EXPECT_EQ(FtrlOptions{.learning_rate = 1}.initial_accumulator, 0.1);
  EXPECT_EQ(AdagradOptions{.learning_rate = 1}.initial_accumulator, 0.1);
  EXPECT_EQ(ProximalAdagradOptions{.learning_rate = 1}.initial_accumulator, 0.1);
}

TEST(Optimizer, IsFoundByTheNamesThatCannedEstimatorsTake) {
  for (const char* name : {"Adagrad", "Adam", "Ftrl", "RMSProp", "SGD"}) {
    EXPECT_EQ(optimizer_by_name(name, 0.2).learning_rate().at(0), 0.2) << name;
  }
}

TEST(Optimizer, IsFoundByTheSpellingsOfTorchAndTensorFlow) {
  const auto kind = [](const char* name) { return optimizer_by_name(name, 0.2).options().index(); };
  for (const char* name : {"adam", "ADAM", "AdamOptimizer", "torch::optim::Adam", "adam_optimizer",
                           "torch.optim.Adam", "tf.train.AdamOptimizer"}) {
    EXPECT_EQ(kind(name), adam().options().index()) << name;
  }
  EXPECT_EQ(kind("torch::optim::AdamW"), adamw().options().index());
  EXPECT_EQ(kind("tf.train.GradientDescentOptimizer"), kind("sgd"));
  EXPECT_EQ(kind("gradient_descent"), kind("sgd"));
  EXPECT_EQ(kind("rms-prop"), kind("RMSprop"));
  EXPECT_EQ(kind("ProximalAdagradOptimizer"), kind("proximal_adagrad"));
  EXPECT_EQ(kind("MomentumOptimizer"), kind("momentum"));
}

TEST(Optimizer, AnUnknownNameIsAnsweredWithTheNamesAndTheNearest) {
  EXPECT_EQ(
      testing::message_of([] { optimizer_by_name("Adgrad", 0.2); }),
      "there is no optimizer `Adgrad`, only adagrad, adam, adamw, ftrl, lion, momentum, "
      "proximal_adagrad, rmsprop, sgd, adafactor, lamb, muon, schedule_free_adam; did you mean "
      "adagrad?");
  EXPECT_EQ(testing::message_of([] { optimizer_by_name("LBFGS", 0.2); }),
            "there is no optimizer `LBFGS`, only adagrad, adam, adamw, ftrl, lion, momentum, "
            "proximal_adagrad, rmsprop, sgd, adafactor, lamb, muon, schedule_free_adam");
  EXPECT_THROW(optimizer_by_name("Optimizer", 0.2), InvalidArgument);
}

TEST(Optimizer, ByNameAloneHasItsOwnLearningRateIfThereIsOne) {
  EXPECT_EQ(optimizer_by_name("adamw").learning_rate().at(0), 0.001);
  EXPECT_EQ(testing::message_of([] { optimizer_by_name("SGD"); }),
            "optimizer `SGD` has no learning rate of its own; give it one, such as "
            "sgd({.learning_rate = 0.01})");
}

TEST(OptimizersByPrefix, AreOneOptimizerANameOrAList) {
  const OptimizersByPrefix one = adam({.learning_rate = 0.5});
  ASSERT_EQ(one.size(), 1);
  EXPECT_EQ(one[0].prefix, "");
  EXPECT_EQ(one[0].optimizer.learning_rate().at(0), 0.5);
  const OptimizersByPrefix named = "Adam";
  ASSERT_EQ(named.size(), 1);
  EXPECT_EQ(named[0].optimizer.description(), adam().description());
  const OptimizersByPrefix list = {{"linear/", ftrl({.learning_rate = 0.2})}, {"dnn/", adam()}};
  ASSERT_EQ(list.size(), 2);
  EXPECT_EQ(list[1].prefix, "dnn/");
  EXPECT_TRUE(OptimizersByPrefix().empty());
}

TEST(Optimizer, RefusesOptionsOutOfRangeByName) {
  const auto message_of = [](auto&& make) {
    try {
      make();
    } catch (const InvalidArgument& error) {
      return error.message();
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(message_of([] { adam({.beta1 = 1.0}); }), "adam: beta1 must be in [0, 1): 1");
  EXPECT_EQ(message_of([] { adagrad({.learning_rate = 0.1, .initial_accumulator = 0.0}); }),
            "adagrad: initial_accumulator must be positive: 0");
  EXPECT_EQ(message_of([] { ftrl({.learning_rate = 0.1, .learning_rate_power = 0.5}); }),
            "ftrl: learning_rate_power must be not positive: 0.5");
  EXPECT_THROW(momentum({.learning_rate = 0.1, .momentum = -0.9}), InvalidArgument);
  EXPECT_THROW(proximal_adagrad({.learning_rate = 0.1, .l1 = -1}), InvalidArgument);
  EXPECT_THROW(rmsprop({.learning_rate = 0.1, .decay = 1.5}), InvalidArgument);
  EXPECT_THROW(adamw({.weight_decay = -0.1}), InvalidArgument);
  EXPECT_THROW(sgd({.learning_rate = 0.1, .weight_decay = -0.1}), InvalidArgument);
}

TEST(Optimizer, DescribesItselfForLogs) {
  EXPECT_EQ(momentum({.learning_rate = 0.1}).description(),
            "momentum(learning_rate = constant 0.1, momentum = 0.9, nesterov = false, "
            "weight_decay = 0)");
  EXPECT_THAT(ftrl({.learning_rate = 0.2, .l1 = 0.5}).description(),
              ::testing::HasSubstr("l1 = 0.5"));
}

}  // namespace
}  // namespace muster
