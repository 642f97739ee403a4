#include "muster/nn/optim/moving_average.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "muster/base/error.h"

namespace muster {
namespace {

struct MovingAverageTest : ::testing::Test {
  MovingAverageTest()
      : variables({{.name = "w", .shape = {2}},
                   {.name = "table", .shape = {3, 2}, .sparse = true},
                   {.name = "mean", .shape = {2}, .trainable = false}}) {
    set(10);
  }
  void set(double value) {
    for (const Variable& variable : variables.all()) variable.value.fill_(value);
  }

  Variables variables;
};

TEST_F(MovingAverageTest, MovesTowardsTheVariablesByOneMinusTheDecay) {
  MovingAverage average(variables, {.decay = 0.75});
  set(14);
  average.update(0);
  EXPECT_TRUE(at::equal(average.tensors()[0].tensor, at::full({2}, 11.0f)));
  EXPECT_TRUE(at::equal(average.tensors()[1].tensor, at::full({3, 2}, 11.0f)));
  average.update(1);
  EXPECT_TRUE(at::equal(average.tensors()[0].tensor, at::full({2}, 11.75f)));
}

TEST_F(MovingAverageTest, MovesFasterWhileYoungWithARamp) {
  MovingAverage average(variables, {.decay = 0.99, .ramp = true});
  set(21);
  average.update(0);  // The decay is (1 + 1) / (10 + 1).
  EXPECT_NEAR(average.tensors()[0].tensor[0].item<float>(), 10 + 11 * 9.0 / 11, 1e-5);
  average.update(1'000'000);
  EXPECT_NEAR(average.tensors()[0].tensor[0].item<float>(), 19 + 2 * 0.01, 1e-5);
}

TEST_F(MovingAverageTest, HasTensorFlowsNamesForTrainableVariables) {
  const MovingAverage average(variables, {});
  ASSERT_EQ(average.tensors().size(), 2u);
  EXPECT_EQ(average.tensors()[0].name, "w/ExponentialMovingAverage");
  EXPECT_EQ(average.tensors()[1].name, "table/ExponentialMovingAverage");
}

TEST_F(MovingAverageTest, StandsInForTheVariablesWhileInUse) {
  MovingAverage average(variables, {.decay = 0.5});
  set(20);
  average.update(0);
  {
    const AverageInUse in_use(average);
    EXPECT_TRUE(at::equal(variables.find("w")->value, at::full({2}, 15.0f)));
    EXPECT_TRUE(at::equal(variables.find("table")->value, at::full({3, 2}, 15.0f)));
    EXPECT_TRUE(at::equal(variables.find("mean")->value, at::full({2}, 20.0f)));
  }
  EXPECT_TRUE(at::equal(variables.find("w")->value, at::full({2}, 20.0f)));
  EXPECT_TRUE(at::equal(average.tensors()[0].tensor, at::full({2}, 15.0f)));
}

TEST_F(MovingAverageTest, RowsThatRestMoveAsIfEveryStepHadMovedThem) {
  for (const bool ramp : {false, true}) {
    set(10);
    const at::Tensor table = variables.find("table")->value;
    MovingAverage lazy(variables, {.decay = 0.9, .ramp = ramp});
    MovingAverage eager(variables, {.decay = 0.9, .ramp = ramp});
    for (std::int64_t step = 0; step < 400; ++step) {
      Gradients gradients = variables.make_gradients();
      // Row 0 is touched often, row 1 once, row 2 never; between, nothing is.
      const std::int64_t row = step == 5 ? 1 : 0;
      if (step % 3 == 0 || step == 5) {
        gradients.rows[0] = {torch::full({1}, row, at::kLong), torch::ones({1, 2})};
      }
      lazy.before_update(gradients);
      if (!gradients.rows[0].empty()) table[row] += 0.37F * static_cast<float>(step);
      variables.flat().add_(1);
      lazy.update(gradients, step);
      eager.update(step);
      if (step % 150 == 7) {
        EXPECT_TRUE(at::equal(lazy.tensors()[1].tensor, eager.tensors()[1].tensor));
      }
    }
    EXPECT_TRUE(at::equal(lazy.tensors()[0].tensor, eager.tensors()[0].tensor));
    EXPECT_TRUE(at::equal(lazy.tensors()[1].tensor, eager.tensors()[1].tensor));
    EXPECT_FALSE(at::equal(lazy.tensors()[1].tensor[1], table[2]));
  }
}

TEST_F(MovingAverageTest, RefusesADecayOutsideZeroToOne) {
  EXPECT_THROW(MovingAverage(variables, {.decay = 1.5}), InvalidArgument);
}

}  // namespace
}  // namespace muster
