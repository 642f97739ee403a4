#include "muster/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

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
  EXPECT_THROW(optimizer_by_name("Adamax", 0.2), InvalidArgument);
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
