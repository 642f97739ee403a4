#include "muster/nn/optim/clipping.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/nn/optim/weight_decay.h"

namespace muster {
namespace {

/// Gradients of norm 5: 3 in a dense variable, 4 in a row of a table.
struct Clipping : ::testing::Test {
  Clipping()
      : variables({{.name = "a", .shape = {2}},
                   {.name = "b", .shape = {3}},
                   {.name = "table", .shape = {6, 2}, .sparse = true}}),
        gradients(variables.make_gradients()) {
    of("a").copy_(torch::tensor({3.0f, 0.0f}));
    gradients.rows[0] = {torch::tensor({4}, at::kLong), torch::tensor({0.0f, -4.0f}).view({1, 2})};
  }
  at::Tensor of(std::string_view name) { return gradients.of(*variables.find(name)); }

  Variables variables;
  Gradients gradients;
};

TEST_F(Clipping, ByValueBoundsEveryElement) {
  clip_by_value(gradients, 2.0);
  EXPECT_TRUE(at::equal(of("a"), torch::tensor({2.0f, 0.0f})));
  EXPECT_TRUE(at::equal(gradients.rows[0].values, torch::tensor({{0.0f, -2.0f}})));
}

TEST_F(Clipping, ByNormBoundsEveryVariableAlone) {
  clip_by_norm(variables, gradients, 3.5);
  EXPECT_TRUE(at::equal(of("a"), torch::tensor({3.0f, 0.0f})));
  EXPECT_TRUE(at::equal(gradients.rows[0].values, torch::tensor({{0.0f, -3.5f}})));
}

TEST_F(Clipping, ByGlobalNormScalesAllByOneFactor) {
  EXPECT_EQ(clip_by_global_norm(variables, gradients, 2.5), 5.0);
  EXPECT_TRUE(at::equal(of("a"), torch::tensor({1.5f, 0.0f})));
  EXPECT_TRUE(at::equal(gradients.rows[0].values, torch::tensor({{0.0f, -2.0f}})));
}

TEST_F(Clipping, ByGlobalNormLeavesSmallGradientsAlone) {
  EXPECT_EQ(clip_by_global_norm(variables, gradients, 5.5), 5.0);
  EXPECT_TRUE(at::equal(of("a"), torch::tensor({3.0f, 0.0f})));
}

TEST_F(Clipping, LeavesGradientsThatAreNotFiniteToBeFound) {
  of("b").fill_(std::numeric_limits<float>::infinity());
  EXPECT_EQ(clip_by_global_norm(variables, gradients, 1.0),
            std::numeric_limits<double>::infinity());
  clip_by_norm(variables, gradients, 100.0);
  EXPECT_TRUE(std::isinf(of("b")[0].item<float>()));
  EXPECT_TRUE(at::equal(of("a"), torch::tensor({3.0f, 0.0f})));
}

TEST_F(Clipping, OnADeviceScalesDenseGradientsLikewise) {
  of("b").copy_(torch::tensor({0.0f, 4.0f, 0.0f}));
  clip_by_norm_on_device(variables, gradients, 3.5);
  EXPECT_TRUE(at::equal(of("a"), torch::tensor({3.0f, 0.0f})));
  EXPECT_TRUE(at::equal(of("b"), torch::tensor({0.0f, 3.5f, 0.0f})));
  of("b").copy_(torch::tensor({0.0f, 4.0f, 0.0f}));
  clip_by_global_norm_on_device(gradients, 2.5);
  EXPECT_TRUE(at::equal(of("a"), torch::tensor({1.5f, 0.0f})));
  EXPECT_TRUE(at::equal(of("b"), torch::tensor({0.0f, 2.0f, 0.0f})));
  of("b").fill_(std::numeric_limits<float>::infinity());
  clip_by_global_norm_on_device(gradients, 1.0);
  EXPECT_TRUE(at::equal(of("a"), torch::tensor({1.5f, 0.0f})));
  EXPECT_THROW(clip_by_global_norm_on_device(gradients, 0.0), InvalidArgument);
}

TEST(WeightDecayMask, NamesTheGroupsOfVariablesThatTakePart) {
  const Variables variables(
      {{.name = "a", .shape = {17}}, {.name = "bias", .shape = {3}}, {.name = "c", .shape = {16}}});
  const auto mask = decay_mask(
      variables, {.factor = 0.1, .filter = [](std::string_view name) { return name != "bias"; }});
  EXPECT_TRUE(at::equal(mask, torch::tensor({1, 1, 0, 1}, at::kByte)));
}

TEST_F(Clipping, RefusesLimitsThatAreNotPositive) {
  EXPECT_THROW(clip_by_value(gradients, 0.0), InvalidArgument);
  EXPECT_THROW(clip_by_norm(variables, gradients, -1.0), InvalidArgument);
  EXPECT_THROW(clip_by_global_norm(variables, gradients, NAN), InvalidArgument);
}

TEST_F(Clipping, TheGlobalNormDoesNotDependOnPadding) {
  gradients.flat.fill_(7);
  for (const char* name : {"a", "b"}) of(name).fill_(2);
  EXPECT_EQ(global_norm(variables, gradients), std::sqrt(5 * 4.0 + 16.0));
}

TEST_F(Clipping, WeightDecayAddsItsGradientAndReturnsItsValue) {
  variables.find("a")->value.copy_(torch::tensor({1.0f, 2.0f}));
  variables.find("b")->value.fill_(1.0f);
  const at::Tensor table = variables.find("table")->value;
  table.fill_(2.0f);
  // 0.5 * (1 + 4 + 3 + 8) / 2: of the table only the touched row counts.
  EXPECT_DOUBLE_EQ(add_weight_decay(variables, gradients, {.factor = 0.5}), 4.0);
  EXPECT_TRUE(at::equal(of("a"), torch::tensor({3.5f, 1.0f})));
  EXPECT_TRUE(at::equal(of("b"), at::full({3}, 0.5f)));
  EXPECT_TRUE(at::equal(gradients.rows[0].values, torch::tensor({{1.0f, -3.0f}})));
  EXPECT_DOUBLE_EQ(weight_decay_loss(variables, {.factor = 0.5}), 0.5 * (8 + 48) / 2);
}

TEST_F(Clipping, WeightDecaySkipsWhatItsFilterDoes) {
  variables.find("a")->value.fill_(1.0f);
  variables.find("b")->value.fill_(1.0f);
  const WeightDecay decay{.factor = 2.0,
                          .filter = [](std::string_view name) { return name == "b"; }};
  EXPECT_DOUBLE_EQ(add_weight_decay(variables, gradients, decay), 3.0);
  EXPECT_TRUE(at::equal(of("a"), torch::tensor({3.0f, 0.0f})));
  EXPECT_TRUE(at::equal(of("b"), at::full({3}, 2.0f)));
  EXPECT_THROW(add_weight_decay(variables, gradients, {.factor = -1}), InvalidArgument);
}

}  // namespace
}  // namespace muster
