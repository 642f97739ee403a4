#include "muster/serving/codec/explain_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

graph::SignatureDef explained_signature() {
  graph::SignatureDef signature;
  signature.inputs["x"] = {
      .name = "x:0", .dtype = graph::DataType::kFloat, .shape = graph::Shape{-1, 2}};
  return signature;
}

TEST(ExplainRequest, ReadsInstancesChoicesAndTheBaseline) {
  const auto request = ExplainRequest::from_json(
      R"({"instances": [[1, 2], [3, 4]], "signature_name": "s", "parameters": {"output": "logits",
          "index": 1, "steps": 600, "tolerance": 0.25, "baseline": [5, 6]}})");
  EXPECT_EQ(request.signature_name(), "s");
  EXPECT_EQ(request.options().output, "logits");
  EXPECT_EQ(request.options().index, 1);
  EXPECT_EQ(request.options().steps, 600);
  EXPECT_EQ(request.options().max_steps, 600);
  EXPECT_EQ(request.options().tolerance, 0.25);
  EXPECT_THAT(request.inputs(explained_signature()).at("x").values<float>(),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(request.baseline(explained_signature())->at("x").values<float>(), ElementsAre(5, 6));
  const auto plain = ExplainRequest::from_json(R"({"instances": [{"x": [1, 2]}]})");
  EXPECT_EQ(plain.signature_name(), "serving_default");
  EXPECT_FALSE(plain.baseline(explained_signature()));
}

TEST(ExplainRequest, NamesWhatIsWrong) {
  const auto complaint = [](const std::string& parameters) {
    return testing::message_of([&] {
      ExplainRequest::from_json(R"({"instances": [1], "parameters": )" + parameters + "}");
    });
  };
  EXPECT_THAT(complaint("7"), HasSubstr("parameters must be a JSON object"));
  EXPECT_THAT(complaint(R"({"step": 7})"), HasSubstr("there is no \"step\"; there are output"));
  EXPECT_THAT(complaint(R"({"steps": "7"})"), HasSubstr("steps must be a whole number"));
  EXPECT_THAT(complaint(R"({"steps": 0})"), HasSubstr("steps must be from 1 to 4096: 0"));
  EXPECT_THAT(complaint(R"({"max_steps": 5000})"), HasSubstr("max_steps must be from"));
  EXPECT_THAT(complaint(R"({"tolerance": "no"})"), HasSubstr("tolerance must be a number"));
  EXPECT_THAT(complaint(R"({"output": 1})"), HasSubstr("output must be the name"));
  EXPECT_THROW(ExplainRequest::from_json(R"({"inputs": [1]})"), InvalidArgument);
  std::string many = R"({"instances": [0)";
  for (std::size_t i = 0; i < kMostExplainedInstances; ++i) many += ",0";
  EXPECT_THAT(testing::message_of([&] { ExplainRequest::from_json(many + "]}"); }),
              HasSubstr("at most 128 instances"));
  const auto request =
      ExplainRequest::from_json(R"({"instances": [[1, 2]], "parameters": {"baseline": {"z": 1}}})");
  EXPECT_THAT(testing::message_of([&] { request.baseline(explained_signature()); }),
              HasSubstr("the baseline"));
}

TEST(ExplainAnswer, HasVertexAisWords) {
  const executor::Explanation one{
      .output = "logits",
      .index = 1,
      .value = 3,
      .baseline_value = 0.5,
      .attributions = {{.feature = "a", .values = {1.5}},
                       {.feature = "p", .shape = {2, 1}, .values = {0.25, 0.75}}},
      .steps = 32,
      .error = 0,
      .is_complete = true};
  EXPECT_EQ(nlohmann::json::parse(explain_answer({one})),
            nlohmann::json::parse(R"({"explanations": [{"attributions": [{
                "outputName": "logits", "outputIndex": [1], "instanceOutputValue": 3.0,
                "baselineOutputValue": 0.5, "approximationError": 0.0, "steps": 32,
                "isComplete": true,
                "featureAttributions": {"a": 1.5, "p": [[0.25], [0.75]]}}]}]})"));
}

}  // namespace
}  // namespace muster::serving
