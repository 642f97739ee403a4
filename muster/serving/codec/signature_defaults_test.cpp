#include "muster/serving/codec/signature_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::SignatureDef;
using graph::TensorValue;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

SignatureDef people() {
  SignatureDef signature;
  signature.inputs["age"] = {.name = "age:0", .dtype = DataType::kFloat, .shape = {-1}};
  signature.inputs["job"] = {.name = "job:0", .dtype = DataType::kString, .shape = {-1}};
  signature.inputs["place"] = {.name = "place:0", .dtype = DataType::kFloat, .shape = {-1, 2}};
  signature.defaults["job"] = TensorValue::of_strings({1}, {"none"});
  signature.defaults["place"] = TensorValue::of<float>({1, 2}, std::vector<float>{1, 2});
  return signature;
}

TEST(AddDefaults, RepeatsTheDefaultOfARowForEachRowOfTheRequest) {
  Tensors inputs{{"age", TensorValue::vector<float>({30, 40, 50})}};
  add_defaults(people(), inputs);
  EXPECT_EQ(inputs.at("job"), TensorValue::of_strings({3}, {"none", "none", "none"}));
  EXPECT_EQ(inputs.at("place"),
            TensorValue::of<float>({3, 2}, std::vector<float>{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(inputs.at("age"), TensorValue::vector<float>({30, 40, 50}));
}

TEST(AddDefaults, TakesNoRowsAndWhatIsThereAsTheyAre) {
  Tensors none{{"age", TensorValue::vector<float>({})}, {"job", TensorValue::of_strings({0}, {})}};
  add_defaults(people(), none);
  EXPECT_THAT(none.at("place").shape, ElementsAre(0, 2));
  Tensors empty;
  add_defaults(people(), empty);
  EXPECT_THAT(empty.at("place").shape, ElementsAre(1, 2));
  EXPECT_FALSE(empty.contains("age"));
}

TEST(AddDefaults, TakesADefaultThatIsNoRowAsItIs) {
  SignatureDef signature = people();
  signature.inputs["limit"] = {.name = "limit:0", .dtype = DataType::kFloat, .shape = {}};
  signature.defaults["limit"] = TensorValue::scalar(0.5F);
  Tensors inputs{{"age", TensorValue::vector<float>({30, 40})}};
  add_defaults(signature, inputs);
  EXPECT_EQ(inputs.at("limit"), TensorValue::scalar(0.5F));
  // An input without a batch dimension: nothing says that the others are rows of one batch.
  EXPECT_EQ(inputs.at("job"), TensorValue::of_strings({1}, {"none"}));
}

TEST(AddDefaults, RepeatsNothingForInputsOfDifferentLengths) {
  Tensors inputs{{"age", TensorValue::vector<float>({30, 40})},
                 {"job", TensorValue::of_strings({1}, {"cook"})}};
  add_defaults(people(), inputs);
  EXPECT_THAT(inputs.at("place").shape, ElementsAre(1, 2));
}

TEST(AddDefaults, RefusesADefaultThatWouldTakeTooMuchMemory) {
  SignatureDef signature = people();
  signature.defaults["job"] = TensorValue::of_strings({1}, {std::string(1 << 20, 'x')});
  Tensors inputs{{"age", TensorValue::vector<float>(std::vector<float>(300))}};
  EXPECT_THAT(testing::message_of([&] { add_defaults(signature, inputs); }),
              AllOf(HasSubstr("default of input job for 300 rows"), HasSubstr("fewer rows")));
}

}  // namespace
}  // namespace muster::serving
