#include "muster/train/estimator/learning_rate_finder.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <limits>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;

// One parameter, whose loss is the input times its square: with sgd it grows from a rate of 1 on.
struct SquareNet : Model {
  SquareNet() { weight = register_parameter("weight", torch::full({1}, 2.0F)); }
  torch::Tensor forward(const Features& x) override { return x.tensor("x") * weight; }
  torch::Tensor weight;
};

EstimatorOptions square_options() {
  return {.model = [] { return std::make_shared<SquareNet>(); },
          .head = regression_head(1),
          .optimizer = sgd({.learning_rate = 0.5})};
}

InputFn square_input(float x, std::int64_t batches) {
  return [=](const InputContext&) {
    return range(batches).map([x](std::int64_t) {
      return make_batch(Features{{"x", torch::full({4, 1}, x)}}, torch::zeros({4, 1}));
    });
  };
}

TEST(FindLearningRate, TellsWhereTheLossFallsAndWhereItGrows) {
  const auto finding =
      find_learning_rate(square_options(), small_net::quiet_config({}), square_input(1, 1000),
                         {.first = 1e-4, .last = 100, .steps = 120, .smoothing = 0.5});
  EXPECT_TRUE(finding.diverged);
  ASSERT_GT(finding.points.size(), 60U);
  EXPECT_LT(finding.points.size(), 120U);
  EXPECT_DOUBLE_EQ(finding.points.front().learning_rate, 1e-4);
  EXPECT_FLOAT_EQ(static_cast<float>(finding.points.front().loss), 4);
  // w *= 1 - 2 rate: it falls fast some time before a rate of 1/2, and grows above 1.
  EXPECT_GT(finding.steepest, 0.005);
  EXPECT_LT(finding.steepest, 0.3);
  EXPECT_GT(finding.smallest_loss, finding.steepest);
  EXPECT_LT(finding.smallest_loss, 10);
}

TEST(FindLearningRate, GivesTheSameForTheSameAndTouchesNoModelFolder) {
  const testing::TempDir folder;
  const auto find = [&] {
    return find_learning_rate(small_net::small_options(), small_net::quiet_config(folder / "run"),
                              small_net::training_input, {.first = 1e-4, .last = 1, .steps = 20});
  };
  const auto one = find();
  const auto other = find();
  ASSERT_EQ(one.points.size(), other.points.size());
  for (std::size_t i = 0; i < one.points.size(); ++i) {
    EXPECT_EQ(one.points[i].loss, other.points[i].loss);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(FindLearningRate, DrawsAPicture) {
  LearningRateFinding finding{.points = {{1e-4, 4, 4}, {1e-3, 3, 3.5}, {1e-2, 1, 2}},
                              .steepest = 1e-3,
                              .smallest_loss = 1e-2};
  const std::string svg = finding.svg();
  EXPECT_THAT(svg, HasSubstr("steepest at 0.001"));
  EXPECT_THAT(svg, HasSubstr("<polyline points=\"70.0,"));
  EXPECT_THAT(svg, HasSubstr("770.0,390.0\" fill=\"none\" stroke=\"#0072b2\""));
  EXPECT_THAT(svg, HasSubstr(">1e-3</text>"));
  EXPECT_THROW(LearningRateFinding{}.svg(), InvalidArgument);
}

std::string message_of_search(const InputFn& input, const LearningRateFinderOptions& options) {
  return message_of(
      [&] { find_learning_rate(square_options(), small_net::quiet_config({}), input, options); });
}

TEST(FindLearningRate, RefusesWhatCannotWork) {
  EXPECT_THAT(message_of_search(square_input(1, 9), {.first = 0}), HasSubstr("must rise"));
  EXPECT_THAT(message_of_search(square_input(1, 9), {.first = 1, .last = 1}),
              HasSubstr("must rise"));
  EXPECT_THAT(message_of_search(square_input(1, 9), {.steps = 2}), HasSubstr("at least 3"));
  EXPECT_THAT(message_of_search(square_input(1, 9), {.smoothing = 1}), HasSubstr("smoothing"));
  EXPECT_THAT(message_of_search(square_input(1, 9), {.divergence = 1}), HasSubstr("divergence"));
  EXPECT_THAT(message_of_search(square_input(1, 2), {}),
              HasSubstr("2 steps were made before the input ended"));
  EXPECT_THAT(message_of_search(square_input(std::numeric_limits<float>::infinity(), 9), {}),
              HasSubstr("0 steps were made before the loss was no finite number"));
}

}  // namespace
}  // namespace muster
