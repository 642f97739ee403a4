#include "muster/serving/codec/predict_request.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::SignatureDef;
using graph::TensorInfo;
using graph::TensorValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::StartsWith;

SignatureDef signature_of(const std::map<std::string, DataType>& inputs) {
  SignatureDef signature;
  for (const auto& [name, type] : inputs) {
    signature.inputs[name] = {.name = name + ":0", .dtype = type, .shape = graph::Shape::any()};
  }
  return signature;
}

const SignatureDef kX = signature_of({{"x", DataType::kFloat}});
const SignatureDef kInts = signature_of({{"x", DataType::kInt32}});
const SignatureDef kText = signature_of({{"x", DataType::kString}});
const SignatureDef kTwo = signature_of({{"a", DataType::kFloat}, {"b", DataType::kString}});

Tensors tensors_of(std::string_view text, const SignatureDef& signature) {
  return PredictRequest::from_json(text).tensors(signature);
}
std::string refused(std::string_view text, const SignatureDef& signature = kX) {
  return message_of([&] { tensors_of(text, signature); });
}

TEST(PredictRequest, TakesRowsOfOneInputBareOrNamed) {
  for (const char* text : {R"({"instances": [[1, 2.5], [3, 4]]})",
                           R"({"instances": [{"x": [1, 2.5]}, {"x": [3, 4]}], "other": 1})"}) {
    const TensorValue x = tensors_of(text, kX).at("x");
    EXPECT_THAT(x.shape, ElementsAre(2, 2));
    EXPECT_THAT(x.values<float>(), ElementsAre(1, 2.5, 3, 4));
  }
  EXPECT_THAT(tensors_of(R"({"instances": [NaN, -Infinity, Inf]})", kX).at("x").values<float>(),
              ElementsAre(::testing::IsNan(), -INFINITY, INFINITY));
}

TEST(PredictRequest, TakesRowsOfSeveralInputsAndBytes) {
  const Tensors both =
      tensors_of(R"({"instances": [{"a": 1, "b": "p"}, {"b": {"b64": "AP8="}, "a": 2}]})", kTwo);
  EXPECT_THAT(both.at("a").values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(both.at("b").strings, ElementsAre("p", std::string("\0\xFF", 2)));
  EXPECT_THAT(tensors_of(R"({"instances": [{"b64": "YQ=="}]})", kText).at("x").strings,
              ElementsAre("a"));
}

TEST(PredictRequest, TakesTheDefaultOfARowWhereItIsMissingOrNull) {
  SignatureDef signature = kTwo;
  signature.inputs["a"].shape = graph::Shape{-1, 2};
  signature.defaults["a"] = TensorValue::of<float>({1, 2}, std::vector<float>{7, 8});
  const Tensors both = tensors_of(
      R"({"instances": [{"a": [1, 2], "b": "p"}, {"b": "q"}, {"a": null, "b": "r"}]})", signature);
  EXPECT_THAT(both.at("a").shape, ElementsAre(3, 2));
  EXPECT_THAT(both.at("a").values<float>(), ElementsAre(1, 2, 7, 8, 7, 8));
  EXPECT_THAT(refused(R"({"instances": [{"a": [1, 2]}]})", signature), HasSubstr("keys must be"));
  EXPECT_THAT(refused(R"({"instances": [{"b": "q", "c": 1}]})", signature),
              HasSubstr("keys must be"));
}

TEST(PredictRequest, TakesTheDefaultOfARowWhereAColumnIsMissingOrHasNull) {
  SignatureDef signature = kTwo;
  signature.inputs["a"].shape = graph::Shape{-1};
  signature.inputs["b"].shape = graph::Shape{-1};
  signature.defaults["a"] = TensorValue::vector<float>({7});
  const auto a_of = [&](std::string_view text) {
    return tensors_of(text, signature).at("a").values<float>();
  };
  EXPECT_THAT(a_of(R"({"inputs": {"b": ["p", "q", "r"]}})"), ElementsAre(7, 7, 7));
  EXPECT_THAT(a_of(R"({"inputs": {"a": null, "b": ["p", "q"]}})"), ElementsAre(7, 7));
  EXPECT_THAT(a_of(R"({"inputs": {"a": [1, null, 3], "b": ["p", "q", "r"]}})"),
              ElementsAre(1, 7, 3));
  EXPECT_THAT(refused(R"({"inputs": {"a": [1]}})", signature),
              "Missing named input: b in 'inputs' object.");
  EXPECT_THAT(refused(R"({"inputs": {"a": [1, 2], "b": ["p", null]}})", signature),
              HasSubstr("Type: Null"));
}

TEST(PredictRequest, TakesColumns) {
  EXPECT_THAT(tensors_of(R"({"inputs": [[1], [2]]})", kX).at("x").shape, ElementsAre(2, 1));
  EXPECT_THAT(tensors_of(R"({"inputs": 7})", kX).at("x").shape, ElementsAre());
  const Tensors both = tensors_of(R"({"inputs": {"a": [1, 2, 3], "b": "p", "c": 0}})", kTwo);
  EXPECT_THAT(both.at("a").shape, ElementsAre(3));
  EXPECT_THAT(both.at("b").shape, ElementsAre());
  EXPECT_FALSE(PredictRequest::from_json(R"({"inputs": 7})").is_row_form());
}

TEST(PredictRequest, NamesItsSignature) {
  EXPECT_EQ(PredictRequest::from_json(R"({"instances": [1]})").signature_name(), "serving_default");
  EXPECT_EQ(
      PredictRequest::from_json(R"({"instances": [1], "signature_name": ""})").signature_name(),
      "serving_default");
  EXPECT_EQ(
      PredictRequest::from_json(R"({"instances": [1], "signature_name": "s"})").signature_name(),
      "s");
}

TEST(PredictRequest, RefusesInTheWordsOfTensorFlowServing) {
  EXPECT_EQ(refused(""), "JSON Parse error: The document is empty");
  EXPECT_EQ(refused("instances = [1, 2]"), "JSON Parse error: Invalid value. at offset: 0");
  EXPECT_EQ(refused("{\"instances\": [1.]}"),
            "JSON Parse error: Miss fraction part in number. at offset: 17");
  // RapidJSON takes it; JSON is UTF-8.
  EXPECT_THAT(refused("{\"instances\": [\"\xFF\"]}"), HasSubstr("ill-formed UTF-8"));
  EXPECT_EQ(refused("[1]"), "JSON Value: [1] Is not object");
  EXPECT_EQ(refused("{}"), "Missing 'inputs' or 'instances' key");
  EXPECT_THAT(refused(R"({"instances": [1], "inputs": 1})"), HasSubstr("expecting only one of"));
  EXPECT_THAT(refused(R"({"instances": 1})"), HasSubstr("Expecting 'instances' to be an list"));
  EXPECT_THAT(refused(R"({"instances": []})"), HasSubstr("No values in 'instances' array"));
  EXPECT_THAT(refused(R"({"instances": [1], "signature_name": 1})"),
              HasSubstr("'signature_name' key must be a string value."));
  EXPECT_THAT(refused(R"({"instances": [1]})", kTwo), HasSubstr("instances is a plain list"));
  EXPECT_THAT(refused(R"({"inputs": [1]})", kTwo), HasSubstr("inputs is a plain value/list"));
  EXPECT_THAT(refused(R"({"inputs": {"a": 1}})", kTwo),
              "Missing named input: b in 'inputs' object.");
  EXPECT_THAT(refused(R"({"instances": [1, {"x": 1}]})"),
              "Expecting value/list but got object at item 1 of input list");
  EXPECT_THAT(refused(R"({"instances": [{"a": 1, "b": "x"}, {"a": 1}]})", kTwo),
              "Failed to process element: 1 of 'instances' list. JSON object: {\"a\":1} keys must "
              "be equal to: a,b");
  EXPECT_EQ(
      refused(R"({"instances": [1, "z"]})"),
      "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: "
      "\"z\" Type: String is not of expected type: float");
  EXPECT_THAT(refused(R"({"instances": [1.5]})", kInts), HasSubstr("not of expected type: int32"));
  EXPECT_THAT(refused(R"({"instances": [4294967296]})", kInts), HasSubstr("expected type: int32"));
  EXPECT_THAT(refused(R"({"instances": [null]})"), HasSubstr("Type: Null"));
  EXPECT_THAT(refused(R"({"instances": [[1, 2], [3]]})"),
              HasSubstr("Expecting tensor size: 2 but got: 1"));
  EXPECT_THAT(refused(R"({"instances": [[1, 2], [[3, 4]]]})"),
              HasSubstr("Expecting shape [2] but got: [1,2]"));
  EXPECT_THAT(refused(R"({"instances": [[1, 2, 3, 4], [[3, 4], [5]]]})"),
              HasSubstr("Encountered list at unexpected size: 1 at level: 1 expected size: 2"));
  EXPECT_THAT(refused(R"({"instances": [1, [1]]})"), HasSubstr("Expecting shape [] but got: [1]"));
  EXPECT_THAT(refused(R"({"instances": [true]})"), HasSubstr("JSON Value: true Type: True is"));
  EXPECT_THAT(refused(R"({"inputs": [[1], 2]})"), HasSubstr("found at incorrect level: 1"));
  EXPECT_THAT(refused(R"({"inputs": [1, [2]]})"), HasSubstr("list at unexpected level: 1"));
  EXPECT_THAT(refused(R"({"instances": [{"b64": 1}]})", kText),
              HasSubstr("not formatted correctly for base64 data"));
  EXPECT_THAT(refused(R"({"instances": [{"b64": "!"}]})", kText),
              HasSubstr("Unable to base64 decode"));
  EXPECT_THAT(refused(R"({"instances": [1]})", signature_of({{"x", DataType::kHalf}})),
              HasSubstr("Conversion of JSON Value: 1 to type: half"));
}

TEST(PredictRequest, ShowsNoMoreThanTheStartOfAWrongValue) {
  const std::string body = "{\"inputs\": [[" + std::string(100'000, '1') + "]";
  EXPECT_LT(refused(body + ", [2, 3]]}").size(), 1000U);
  EXPECT_LT(refused("[\"" + std::string(100'000, 'a') + "\"]").size(), 400U);
  EXPECT_THAT(refused(std::string(1'000'000, '[')), HasSubstr("nested deeper than"));
}

TEST(PredictAnswer, HasTheLayoutOfTensorFlowServing) {
  const Tensors one{{"y", TensorValue::vector<float>({2.5F, 3, 4.5F})}};
  EXPECT_EQ(predict_answer(one, true), "{\n    \"predictions\": [2.5, 3.0, 4.5\n    ]\n}");
  EXPECT_EQ(predict_answer(one, false), "{\n    \"outputs\": [2.5, 3.0, 4.5]\n}");
  const Tensors two{{"a", TensorValue::of<std::int64_t>({2, 1}, std::vector<std::int64_t>{1, -2})},
                    {"b_bytes", TensorValue::of_strings({2}, {"a", std::string("\xFF", 1)})}};
  EXPECT_EQ(predict_answer(two, true),
            "{\n    \"predictions\": [\n        {\n            \"a\": [1],\n            "
            "\"b_bytes\": {\"b64\": \"YQ==\"}\n        },\n        {\n            \"a\": [-2],\n"
            "            \"b_bytes\": {\"b64\": \"/w==\"}\n        }\n    ]\n}");
  EXPECT_EQ(predict_answer(two, false),
            "{\n    \"outputs\": {\n        \"a\": [[1], [-2]],\n        \"b_bytes\": [{\"b64\": "
            "\"YQ==\"}, {\"b64\": \"/w==\"}]\n    }\n}");
}

TEST(PredictAnswer, WritesTheFewestDigitsThatReadBackEqual) {
  const float values[] = {1.0F / 3,
                          1e-7F,
                          3,
                          0.1F,
                          16777216.0F,
                          std::nanf(""),
                          -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(tensor_json(TensorValue::of<float>({7}, values), false),
            "[0.33333334, 1e-07, 3.0, 0.1, 16777216.0, NaN, -Infinity]");
  EXPECT_EQ(tensor_json(TensorValue::scalar<double>(0.1), false), "0.1");
}

TEST(PredictAnswer, RefusesOutputsWithoutRows) {
  EXPECT_THAT(message_of([] {
                predict_answer({{"y", TensorValue::scalar<float>(1)}}, true);
              }),
              HasSubstr("Tensor name: y has no shape information"));
  EXPECT_THAT(message_of([] {
                predict_answer({{"y", TensorValue::vector<float>({1})},
                                {"z", TensorValue::vector<float>({1, 2})}},
                               true);
              }),
              HasSubstr("Tensor name: z has inconsistent batch size: 2 expecting: 1"));
  EXPECT_THROW(predict_answer({}, true), InvalidArgument);
  EXPECT_THROW(predict_answer({{"y", TensorValue::of_strings({1}, {"\xFF"})}}, true),
               InvalidArgument);
}

// Description of the parsed request, or the error it is refused with.
std::string outcome_of(const std::string& text, const SignatureDef& signature) {
  try {
    const auto request = PredictRequest::from_json(text);
    std::string outcome = request.signature_name() + (request.is_row_form() ? " rows" : " columns");
    for (const auto& [name, tensor] : request.tensors(signature)) {
      outcome += fmt::format(" {} [{}] [{}] ", name, fmt::join(tensor.shape, ","),
                             fmt::join(tensor.strings, ","));
      outcome += tensor.bytes;
    }
    return outcome;
  } catch (const Error& error) {
    return fmt::format("{}: {}", muster::name_of(error.code()), error.message());
  }
}

TEST(PredictRequest, BothOfItsReadersSayTheSame) {
  const std::vector<std::pair<std::string, SignatureDef>> requests = {
      {R"({"instances": [[1, 2.5e3], [-3, 0.25]], "signature_name": "s"})", kX},
      {R"({"instances": [{"a": 1, "b": "p\u00e4"}, {"b": {"b64": "AP8="}, "a": 2}]})", kTwo},
      {R"({"instances": [{"b": "p", "a": 1}, {"a": 2, "b": "q"}, {"b": "r", "a": 3}]})", kTwo},
      {R"({"instances": [{"a": 1, "b": "p"}, {"a": 2, "a": 3}]})", kTwo},
      {R"({"instances": [{"a": 1, "b": "p"}, {"b": "q", "a": 3, "b": "r"}]})", kTwo},
      {R"({"inputs": {"a": [[1], [2]], "b": ["p", "q"], "c": null}})", kTwo},
      {R"({"instances": [1, -2, 2147483647, 3000000000]})", kInts},
      {R"({"instances": [{"b64": "YQ=="}, "x"]})", kText},
      {R"({"inputs": [true, false]})", signature_of({{"x", DataType::kBool}})},
      {R"({"inputs": 18446744073709551615})", signature_of({{"x", DataType::kUint64}})},
  };
  // Only one of the readers takes a byte order mark.
  const std::string mark = "\xEF\xBB\xBF";
  std::mt19937 random(1);
  const std::string bytes = "0123456789-+.eE{}[],:\"\\ \nabnulx\xC3";
  for (const auto& [request, signature] : requests) {
    EXPECT_EQ(outcome_of(request, signature), outcome_of(mark + request, signature));
    for (int i = 0; i < 2000; ++i) {
      std::string mutant = request;
      for (auto changes = random() % 3; changes < 3; ++changes) {
        const auto at = random() % mutant.size();
        const auto count = random() % 3;
        mutant.replace(at, count, random() % 2, bytes[random() % bytes.size()]);
      }
      ASSERT_EQ(outcome_of(mutant, signature), outcome_of(mark + mutant, signature)) << mutant;
    }
  }
}

}  // namespace
}  // namespace muster::serving
