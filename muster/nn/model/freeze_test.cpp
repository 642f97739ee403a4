#include "muster/nn/model/freeze.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/nn/model/model_summary.h"
#include "muster/nn/model/name_pattern.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;

struct TwoParts : torch::nn::Module {
  torch::nn::Linear backbone{register_module("backbone", torch::nn::Linear(4, 3))};
  torch::nn::BatchNorm1d norm{register_module("norm", torch::nn::BatchNorm1d(3))};
  torch::nn::Linear head{register_module("head", torch::nn::Linear(3, 2))};
};

TEST(NamePattern, TakesAStarForAnyLetters) {
  EXPECT_TRUE(matches_name("dnn/*/bias", "dnn/hidden/0/bias"));
  EXPECT_TRUE(matches_name("*", ""));
  EXPECT_TRUE(matches_name("*bias", "bias"));
  EXPECT_TRUE(matches_name("a*b*c", "a_b_bc"));
  EXPECT_TRUE(matches_name("a**", "a"));
  EXPECT_FALSE(matches_name("a*b", "a_b_c"));
  EXPECT_FALSE(matches_name("dnn", "dnn/kernel"));
  EXPECT_FALSE(matches_name("", "a"));
}

TEST(Freeze, TakesTheGradientFromWhatMatches) {
  TwoParts model;
  EXPECT_EQ(freeze(model, {"backbone/*", "*/bias"}), 4 * 3 + 3 + 2);
  EXPECT_FALSE(model.backbone->weight.requires_grad());
  EXPECT_FALSE(model.head->bias.requires_grad());
  EXPECT_TRUE(model.head->weight.requires_grad());
  EXPECT_TRUE(model.norm->weight.requires_grad());
  EXPECT_EQ(freeze(model, {"backbone/kernel"}), 12) << "once more does no harm";
}

TEST(Freeze, RefusesAPatternOfNothingAndTables) {
  TwoParts model;
  EXPECT_THAT(message_of([&] {
                freeze(model, {"head/*", "neck/*"});
              }),
              HasSubstr("no parameter matches \"neck/*\"; there are: backbone/kernel"));
  EXPECT_TRUE(model.head->weight.requires_grad()) << "nothing was frozen";
  EXPECT_THROW(freeze(model, {"norm/moving_mean"}), InvalidArgument);
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  torch::nn::Module with_table;
  with_table.register_module("table", table);
  EXPECT_THAT(message_of([&] { freeze(with_table, {"table/*"}); }), HasSubstr("sparse table"));
}

TEST(ModelSummary, ListsVariablesAndTheirSums) {
  TwoParts model;
  freeze(model, {"backbone/*"});
  const std::string text = model_summary(model);
  const auto has = HasSubstr(
      "backbone/bias             [3]                 3               12  -\n"
      "norm/gamma                [3]                 3               12  yes\n");
  EXPECT_THAT(text, has);
  EXPECT_THAT(text, HasSubstr("\nbackbone/kernel           [4, 3]             12 "));
  EXPECT_THAT(text,
              HasSubstr("\nnorm/moving_variance      [3]                 3               12  -\n"));
  EXPECT_THAT(text, HasSubstr("36 values in 9 variables, 14 of them trained, 148 bytes\n"));
}

}  // namespace
}  // namespace muster
