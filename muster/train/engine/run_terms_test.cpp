#include "muster/train/engine/run_terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <memory>

namespace muster {
namespace {

using ::testing::HasSubstr;

struct TermFlags {
  double rate = 0.1;
  double momentum = 0.9;
  double dropout = 0.2;
  std::int64_t units = 3;
  double decay = 0;
  std::optional<double> clip{};
  std::string batch = "8";
};

std::vector<RunTerm> terms_with(const TermFlags& flags) {
  const torch::nn::Sequential layers(torch::nn::Linear(2, flags.units),
                                     torch::nn::Dropout(flags.dropout),
                                     torch::nn::Linear(flags.units, 1));
  const auto model = model_from(layers.ptr(), [](const Features&) { return torch::Tensor(); });
  RunConfig config;
  config.cluster.terms["--train-batch-size"] = flags.batch;
  return terms_of({.head = binary_class_head(),
                   .optimizer = momentum({.learning_rate = flags.rate, .momentum = flags.momentum}),
                   .clip = {.global_norm = flags.clip},
                   .weight_decay = {.factor = flags.decay}},
                  config, *model);
}

TEST(RunContract, AreEqualForEqualRuns) {
  EXPECT_EQ(difference(terms_with({}), terms_with({}), false), "");
}

TEST(RunContract, NamesTheCompilerThatTasksDifferIn) {
  const std::vector<RunTerm> chief{{"compile", compile_term(CompileMode::kOn)}};
  const std::vector<RunTerm> task{{"compile", compile_term(CompileMode::kOff)}};
  EXPECT_THAT(difference(chief, task, /*is_server=*/false),
              HasSubstr("', this task's 'off'; give all tasks the same"));
  EXPECT_EQ(difference(chief, chief, /*is_server=*/false), "");
  EXPECT_EQ(difference(chief, {}, /*is_server=*/true), "") << "a ps makes no steps";
}

TEST(RunContract, NameWhatDiffersWithBothValues) {
  const auto chief = terms_with({});
  const auto of = [&](const TermFlags& flags) {
    return difference(chief, terms_with(flags), /*is_server=*/true);
  };
  EXPECT_THAT(of({.rate = 0.2}), HasSubstr("learning_rate = constant 0.2"));
  EXPECT_THAT(of({.momentum = 0.5}), HasSubstr("the chief's optimizer is 'momentum("));
  EXPECT_EQ(
      of({.clip = 0.5}),
      "the chief's clipping is 'none', this task's 'global_norm 0.5'; give all tasks the same");
  EXPECT_THAT(of({.decay = 0.5}), HasSubstr("weight decay"));
  EXPECT_THAT(of({.dropout = 0.5}), HasSubstr("p=0.5"));
  EXPECT_THAT(of({.units = 4}), HasSubstr("variable "));
  EXPECT_EQ(of({.batch = "16"}),
            "the chief's --train-batch-size is '8', this task's '16'; give all tasks the same");
}

TEST(RunContract, MayHaveANameTwice) {
  const std::vector<RunTerm> chief{{"head", "of the program"}, {"head", "of the model"}};
  EXPECT_EQ(difference(chief, chief, false), "");
  EXPECT_THAT(difference(chief, {{"head", "of the program"}, {"head", "another"}}, false),
              HasSubstr("the chief's head is 'of the model', this task's 'another'"));
}

TEST(RunContract, AServerNeedNotKnowAllOfThem) {
  const std::vector<RunTerm> chief{{"a", "1"}, {"b", "2"}};
  EXPECT_EQ(difference(chief, {{"b", "2"}}, true), "");
  EXPECT_THAT(difference(chief, {{"b", "2"}}, false), HasSubstr("the chief's a is '1'"));
  EXPECT_THAT(difference(chief, {{"a", "1"}, {"b", "2"}, {"c", "3"}}, true),
              HasSubstr("the chief's c is 'none', this task's '3'"));
}

}  // namespace
}  // namespace muster
