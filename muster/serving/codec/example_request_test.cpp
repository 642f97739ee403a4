#include "muster/serving/codec/example_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/records/example_builder.h"
#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

using graph::TensorValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

std::string refusal_of(std::string_view text) {
  return message_of([&] { example_request_from_json(text, "classify"); });
}

TEST(ExampleRequest, MakesExamplesWithTheContextInFront) {
  const ExampleRequest request = example_request_from_json(
      R"({"context": {"c": "z"}, "examples": [{"i": 3, "f": [1.5, 2.0], "t": true},
          {"s": ["a", {"b64": "AA=="}]}]})",
      "classify");
  EXPECT_EQ(request.signature_name, "serving_default");
  const std::string context = ExampleBuilder().add_bytes("c", "z").serialize();
  ExampleBuilder second;
  second.add_bytes("s", "a").add_bytes("s", std::string_view("\0", 1));
  EXPECT_THAT(request.examples, ElementsAre(context + ExampleBuilder()
                                                          .add_int("i", 3)
                                                          .add_float("f", 1.5F)
                                                          .add_float("f", 2)
                                                          .add_int("t", 1)
                                                          .serialize(),
                                            context + second.serialize()));
}

TEST(ExampleRequest, RefusesInTheWordsOfTensorFlowServing) {
  EXPECT_EQ(refusal_of("{}"),
            "When method is classify, key 'examples' is expected and was not found");
  EXPECT_EQ(refusal_of(R"({"examples": 1})"), "Expecting 'examples' value to be an list/array");
  EXPECT_EQ(refusal_of(R"({"examples": []})"), "'examples' value is an empty array");
  EXPECT_EQ(refusal_of(R"({"examples": [1]})"), "Example must be JSON object but got JSON Number");
  EXPECT_EQ(refusal_of(R"({"examples": 1, "context": [{"a": 1}]})"),
            "Example must be JSON object but got JSON Array");
  EXPECT_EQ(refusal_of(R"({"context": "a"})"), "Example must be JSON object but got JSON String");
  EXPECT_EQ(refusal_of(R"({"examples": [{"a": [1, 2.5]}]})"),
            "Unexpected element type in feature: a expecting type: int64");
  EXPECT_THAT(refusal_of(R"({"examples": [{"a": null}]})"),
              HasSubstr("unexpected JSON type: Null"));
  EXPECT_THAT(refusal_of(R"({"examples": [{"a": 18446744073709551615}]})"),
              HasSubstr("has uint64_t element"));
}

TEST(ExampleAnswers, ListLabelsAndValues) {
  const std::vector<float> scores{0.25F, 0.75F};
  const Tensors outputs{{"classes", TensorValue::of_strings({1, 2}, {"no", "yes"})},
                        {"scores", TensorValue::of<float>({1, 2}, std::span(scores))}};
  EXPECT_EQ(classify_answer(classifications_of(outputs, 1)),
            "{\n    \"results\": [[[\"no\", 0.25], [\"yes\", 0.75]]\n    ]\n}");
  EXPECT_THROW(classifications_of(outputs, 2), InvalidArgument);
  EXPECT_THROW(classifications_of({}, 1), InvalidArgument);
  const Tensors values{{"outputs", TensorValue::of<float>({2, 1}, std::span(scores))}};
  EXPECT_EQ(regress_answer(regressions_of(values, 2)), "{\n    \"results\": [0.25, 0.75\n    ]\n}");
  EXPECT_THROW(regressions_of(outputs, 1), InvalidArgument);
}

}  // namespace
}  // namespace muster::serving
