#include "muster/serving/codec/instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/serving/codec/json_tensor.h"
#include "muster/serving/codec/signature_choice.h"
#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::Shape;
using graph::SignatureDef;
using graph::TensorInfo;
using graph::TensorValue;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::StartsWith;

TensorInfo info(DataType type, const Shape& shape) {
  return {.name = "p:0", .dtype = type, .shape = shape};
}

SignatureDef one_input(DataType type, const Shape& shape) {
  return {.inputs = {{"x", info(type, shape)}}};
}

// Two features of a person, as the JSON receiver has them.
SignatureDef person() {
  return {.inputs = {{"age", info(DataType::kFloat, {-1})},
                     {"workclass", info(DataType::kString, {-1})}}};
}

TensorValue tensor_of(const SignatureDef& signature, std::string_view lines) {
  return Instances::from_json_lines(lines).tensors(signature).at("x");
}

std::string refusal(const SignatureDef& signature, std::string_view lines) {
  return message_of([&] { Instances::from_json_lines(lines).tensors(signature); });
}

TEST(Instances, OfNamedInputsBecomeOneTensorAnInput) {
  const auto tensors = Instances::from_json_lines(
                           "{\"age\": 39, \"workclass\": \"Private\"}\r\n"
                           "{\"workclass\": \"caf\\u00e9\", \"age\": 17.5}\n")
                           .tensors(person());
  EXPECT_EQ(tensors.at("age"), TensorValue::vector<float>({39, 17.5F}));
  EXPECT_EQ(tensors.at("workclass"), TensorValue::of_strings({2}, {"Private", "caf\xC3\xA9"}));
}

TEST(Instances, OfASingleInputMayBeBareOrNamed) {
  const auto signature = one_input(DataType::kInt64, {-1, 2});
  EXPECT_EQ(tensor_of(signature, "[1, -2]\n{\"x\": [3, 4]}"),
            TensorValue::of<std::int64_t>({2, 2}, std::vector<std::int64_t>{1, -2, 3, 4}));
  EXPECT_THAT(refusal(signature, "{\"y\": [1, 2]}"),
              HasSubstr("instance 1: Expected tensor name: x, got tensor name: ['y']."));
  EXPECT_THAT(refusal(signature, "{\"x\": [1, 2], \"y\": 3}"),
              HasSubstr("got tensor name: ['x', 'y']."));
}

TEST(Instances, OfTextAreTheStringsOfASingleInput) {
  const auto signature = one_input(DataType::kString, {-1});
  EXPECT_EQ(Instances::from_text_lines("\xEF\xBB\xBF"
                                       "39, Private\r\n{\"b64\": \"AA==\"}\n\xFF")
                .tensors(signature)
                .at("x"),
            TensorValue::of_strings({3}, {"39, Private", "{\"b64\": \"AA==\"}", "\xFF"}));
  EXPECT_THAT(message_of([&] {
                Instances::from_text_lines("1.5").tensors(one_input(DataType::kFloat, {-1}));
              }),
              HasSubstr("a number was expected, but there is the string \"1.5\""));
}

TEST(Instances, HoldBytesInBase64WhereverAStringIsExpected) {
  const auto signature = one_input(DataType::kString, {-1});
  EXPECT_EQ(tensor_of(signature, "{\"b64\": \"AP8=\"}\n{\"x\": {\"b64\": \"\"}}\n\"b64\""),
            TensorValue::of_strings({3}, {std::string("\0\xFF", 2), "", "b64"}));
  EXPECT_EQ(tensor_of(one_input(DataType::kString, {-1, 2}), "[\"a\", {\"b64\": \"Yg==\"}]"),
            TensorValue::of_strings({1, 2}, {"a", "b"}));
  EXPECT_THAT(refusal(signature, "{\"b64\": \"*\"}"), HasSubstr("input x: instance 1: "));
  EXPECT_THAT(refusal(signature, "{\"b64\": 1}"), HasSubstr("Expected tensor name: x"));
  EXPECT_THAT(refusal(one_input(DataType::kFloat, {-1}), "{\"x\": {\"b64\": \"AA==\"}}"),
              HasSubstr("a number was expected, but there is an object"));
}

TEST(Instances, SayWhichInputIsMissingOrUnknown) {
  EXPECT_THAT(refusal(person(), "{\"age\": 1, \"workclass\": \"a\"}\n{\"workclass\": \"b\"}"),
              StartsWith("Input age was missing in at least one input instance. The first is "
                         "instance 2."));
  EXPECT_THAT(refusal(person(), "{\"age\": 1, \"workclass\": \"a\", \"Age\": 2}"),
              StartsWith("instance 1: Unexpected tensor name: Age. The signature has: age"));
  EXPECT_THAT(refusal(person(), "39"),
              HasSubstr("The signature has 2 inputs (age, workclass), so an instance is an object "
                        "that names them, but there is 39"));
}

TEST(Instances, TakeDefaultsForInputsThatNoneHas) {
  SignatureDef signature = person();
  signature.defaults["age"] = TensorValue::vector<float>({1});
  const auto tensors = Instances::from_json_lines("{\"workclass\": \"a\"}").tensors(signature);
  EXPECT_EQ(tensors.at("age"), TensorValue::vector<float>({1}));
}

TEST(Instances, TakeTheDefaultOfARowWhereOneIsMissingOrNull) {
  SignatureDef signature = person();
  signature.defaults["age"] = TensorValue::vector<float>({38});
  const auto tensors = Instances::from_json_lines(
                           "{\"workclass\": \"a\"}\n{\"age\": 20, \"workclass\": \"b\"}\n"
                           "{\"age\": null, \"workclass\": \"c\"}")
                           .tensors(signature);
  EXPECT_EQ(tensors.at("age"), TensorValue::vector<float>({38, 20, 38}));
  EXPECT_THAT(refusal(signature, "{\"age\": 1, \"workclass\": null}"), HasSubstr("workclass"));
}

TEST(Instances, AreRefusedWhenTheirShapesDiffer) {
  const auto signature = one_input(DataType::kFloat, {-1, 2});
  EXPECT_THAT(refusal(signature, "[1, 2]\n[1, 2, 3]"),
              HasSubstr("input x: instance 2: a list of 2 was expected, but there is one of 3"));
  EXPECT_THAT(refusal(signature, "[1, 2]\n7"),
              HasSubstr("a list of 2 was expected, but there is 7"));
  EXPECT_THAT(refusal(signature, "[1, [2]]"),
              HasSubstr("a number was expected, but there is a list"));
  EXPECT_THAT(refusal(signature, "1\n2"),
              HasSubstr("the input is DT_FLOAT (-1, 2), one row an instance, but 2 instances like "
                        "the first, whose shape is (), make (2)"));
  EXPECT_THAT(refusal(one_input(DataType::kFloat, Shape()), "1"), HasSubstr("make"));
  EXPECT_THAT(refusal(one_input(DataType::kFloat, Shape::any()), "[[], [1]]"),
              HasSubstr("a list of 0 was expected, but there is one of 1"));
  EXPECT_EQ(tensor_of(one_input(DataType::kFloat, Shape::any()), "[[], []]").shape,
            (std::vector<std::int64_t>{1, 2, 0}));
}

TEST(Instances, KeepNumbersToTheirTypes) {
  EXPECT_THAT(refusal(one_input(DataType::kInt64, {-1}), "1.0"),
              HasSubstr("a whole number was expected, but there is 1.0"));
  EXPECT_THAT(refusal(one_input(DataType::kUint8, {-1}), "256"),
              HasSubstr("256 does not fit DT_UINT8"));
  EXPECT_THAT(refusal(one_input(DataType::kUint64, {-1}), "-1"), HasSubstr("does not fit"));
  EXPECT_THAT(refusal(one_input(DataType::kFloat, {-1}), "1e39"),
              HasSubstr("1e+39 is too large for DT_FLOAT"));
  EXPECT_THAT(refusal(one_input(DataType::kFloat, {-1}), "1e400"), HasSubstr("line 1"));
  EXPECT_THAT(refusal(one_input(DataType::kString, {-1}), "5"),
              HasSubstr("a string or {\"b64\": \"...\"} was expected, but there is 5"));
  EXPECT_THAT(refusal(one_input(DataType::kBool, {-1}), "1"),
              HasSubstr("true or false was expected"));
  EXPECT_THAT(refusal(one_input(DataType::kFloat, {-1}), "null"),
              HasSubstr("a number was expected, but there is null"));
  EXPECT_THAT(refusal(one_input(DataType::kComplex64, {-1}), "1"), HasSubstr("DT_COMPLEX64"));
  EXPECT_EQ(tensor_of(one_input(DataType::kUint64, {-1}), "18446744073709551615"),
            TensorValue::vector<std::uint64_t>({std::numeric_limits<std::uint64_t>::max()}));
}

TEST(Instances, ReadNaNAndInfinityAsPythonWritesThem) {
  const auto x = tensor_of(one_input(DataType::kDouble, {-1, 3}), "[NaN, Infinity, -Infinity]")
                     .values<double>();
  EXPECT_TRUE(std::isnan(x[0]));
  EXPECT_EQ(x[1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(x[2], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(tensor_of(one_input(DataType::kFloat, {-1}), "NaN").values<float>()[0]));
  EXPECT_EQ(tensor_of(one_input(DataType::kString, {-1}), "\"a \\\"NaN\\\\\""),
            TensorValue::of_strings({1}, {"a \"NaN\\"}));
  EXPECT_THAT(refusal(one_input(DataType::kInt32, {-1}), "NaN"), HasSubstr("there is NaN"));
}

TEST(Instances, AreRefusedWhenTheFileIsNotWhatItShouldBe) {
  const auto lines = [](std::string_view text) {
    return message_of([&] { Instances::from_json_lines(text); });
  };
  EXPECT_EQ(lines("1\n\n2"), "Empty line is not allowed in the instances file. It is line 2.");
  EXPECT_EQ(lines(""), "No valid instance was found in input file.");
  EXPECT_THAT(lines("1\n{oops}"),
              StartsWith("Input instances are not in JSON format: line 2: parse error at line 1"));
  EXPECT_THAT(lines("\"\xFF\""), HasSubstr("not in JSON format"));
  EXPECT_THAT(lines("NaNs"), HasSubstr("not in JSON format"));
  EXPECT_THAT(lines(std::string_view("[1]\0 rest", 9)), HasSubstr("byte 4 is zero"));
  const std::string deep(100'000, '[');
  EXPECT_THAT(lines(deep), HasSubstr("not in JSON format"));
  EXPECT_THAT(refusal(one_input(DataType::kFloat, Shape::any()), deep + std::string(100'000, ']')),
              HasSubstr("nested deeper than 128"));
}

TEST(Instances, OfARequestComeWithTheNameOfTheSignature) {
  const auto request = Instances::from_request(
      "\xEF\xBB\xBF{\"signature_name\": \"predict\", \"instances\": [1, 2]}");
  EXPECT_EQ(request.size(), 2U);
  EXPECT_EQ(request.signature_name(), "predict");
  EXPECT_EQ(Instances::from_request("{\"instances\": [1]}").signature_name(), "");
  const auto failure = [](std::string_view text) {
    return message_of([&] { Instances::from_request(text); });
  };
  EXPECT_EQ(failure("{}"), "Invalid JSON request: missing \"instances\" attribute");
  EXPECT_EQ(failure("[1]"), "Invalid JSON request: missing \"instances\" attribute");
  EXPECT_EQ(failure("{\"instances\": 3}"), "Invalid JSON request: \"instances\" must be a list");
  EXPECT_EQ(failure("{\"instances\": []}"), "Invalid JSON request: \"instances\" is empty");
  EXPECT_THAT(failure("{\"instances\": [1], \"signature_name\": 1}"),
              HasSubstr("must be a string"));
  EXPECT_THAT(failure(""), StartsWith("Invalid JSON request: parse error"));
}

TEST(Instances, OfAWrongTypeAreNotReportedAsOfAWrongShape) {
  EXPECT_THAT(refusal(one_input(DataType::kFloat, {-1, 2}), "\"abc\""),
              HasSubstr("the input is of type DT_FLOAT: a number was expected, but there is the "
                        "string \"abc\""));
  EXPECT_THAT(refusal(one_input(DataType::kInt64, {-1}), "[1.5]"),
              HasSubstr("a whole number was expected, but there is 1.5"));
  EXPECT_THAT(refusal(one_input(DataType::kString, {-1}), "[1, 2]"),
              HasSubstr("a string or {\"b64\": \"...\"} was expected, but there is 1"));
  EXPECT_THAT(message_of([] {
                tensor_from_json("\"x\"", info(DataType::kFloat, {-1, 2}));
              }),
              HasSubstr("a number was expected"));
}

TEST(TensorFromJson, IsTheWholeInput) {
  EXPECT_EQ(tensor_from_json("[[1, 2]]", info(DataType::kFloat, {-1, 2})),
            TensorValue::of<float>({1, 2}, std::vector<float>{1, 2}));
  EXPECT_EQ(tensor_from_json("true", info(DataType::kBool, Shape())).shape,
            std::vector<std::int64_t>());
  EXPECT_THAT(message_of([] {
                tensor_from_json("[1]", info(DataType::kFloat, {-1, 2}));
              }),
              HasSubstr("the input must be DT_FLOAT (-1, 2), but the value has the shape (1)"));
}

TEST(ChooseSignature, TakesTheNamedOneTheOnlyOneOrTheDefault) {
  graph::MetaGraph meta;
  meta.signatures["predict"];
  meta.signatures["__saved_model_init_op"];
  EXPECT_EQ(choose_signature(meta, ""), "predict");
  meta.signatures["other"];
  EXPECT_EQ(choose_signature(meta, "other"), "other");
  EXPECT_EQ(message_of([&] { choose_signature(meta, ""); }),
            "No signature found for signature key serving_default. The model has: other, predict");
  EXPECT_THAT(message_of([&] { choose_signature(meta, "__saved_model_init_op"); }),
              StartsWith("No signature found"));
  meta.signatures["serving_default"];
  EXPECT_EQ(choose_signature(meta, ""), "serving_default");
}

}  // namespace
}  // namespace muster::serving
