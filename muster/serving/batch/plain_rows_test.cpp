#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/serving/batch/plain_rows_internal.h"
#include "muster/serving/codec/fast_request.h"
#include "muster/serving/codec/instances.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::SignatureDef;
using PlainLines = std::vector<std::string_view>;

graph::TensorInfo plain_info(DataType type, graph::Shape shape = graph::Shape::any()) {
  return {.name = "x:0", .dtype = type, .shape = std::move(shape)};
}

SignatureDef plain_person() {
  return {.inputs = {{"age", plain_info(DataType::kFloat)},
                     {"job", plain_info(DataType::kString)},
                     {"hours", plain_info(DataType::kInt32)}}};
}

SignatureDef one_plain_input(DataType type) { return {.inputs = {{"x", plain_info(type)}}}; }

TEST(PlainRows, TakesNumbersAndStringsOfLinesThatAreLaidOutAlike) {
  const SignatureDef signature = plain_person();
  const auto rows = PlainRows(signature, "")
                        .read(PlainLines{R"( {"age": 39, "job":"Sales", "hours" : -40}	)",
                                         R"( {"age": 2.5e1, "job":"", "hours" : 0}	)"});
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->inputs.at("age").values<float>(), (std::vector<float>{39, 25}));
  EXPECT_EQ(rows->inputs.at("job").strings, (std::vector<std::string>{"Sales", ""}));
  EXPECT_EQ(rows->inputs.at("hours").values<std::int32_t>(), (std::vector<std::int32_t>{-40, 0}));
  EXPECT_EQ(rows->inputs.at("hours").shape, (std::vector<std::int64_t>{2}));
  EXPECT_TRUE(rows->keys.empty());
}

TEST(PlainRows, LeavesWhatIsNotPlainToTheOtherReaders) {
  const SignatureDef signature = one_plain_input(DataType::kDouble);
  const PlainRows plain(signature, "");
  EXPECT_TRUE(plain.read(PlainLines{R"({"x": 1})"}));
  for (const std::string_view line : {"",
                                      " ",
                                      "1",
                                      "{",
                                      "{}",
                                      R"({"x"})",
                                      R"({"x":})",
                                      R"({"x": 1)",
                                      R"({"x": 1,})",
                                      R"({"x": 1}})",
                                      R"({"x": 1} 2)",
                                      R"({"x": 1, "x": 1})",
                                      R"({"x": 1, "y": 1})",
                                      R"({"y": 1})",
                                      R"({"x": "1"})",
                                      R"({"x": [1]})",
                                      R"({"x": null})",
                                      R"({"x": NaN})",
                                      R"({"x": +1})",
                                      R"({"x": 01})",
                                      R"({"x": -})",
                                      R"({"x": 1.})",
                                      R"({"x": .5})",
                                      R"({"x": 1e})",
                                      R"({"x": 1e+})",
                                      R"({"x": 1e999})",
                                      R"({"x": 1234567890123456789})",
                                      R"({"\u0078": 1})"}) {
    EXPECT_FALSE(plain.read(PlainLines{line})) << line;
    EXPECT_FALSE(plain.read(PlainLines{R"({"x": 1})", line})) << line;
  }
  EXPECT_FALSE(plain.read({}));
  EXPECT_FALSE(plain.read(PlainLines{R"({"x": 1})", R"({"x":1})"}));
}

TEST(PlainRows, LeavesStringsThatAreMoreThanPlainTextToTheOtherReaders) {
  const SignatureDef signature = one_plain_input(DataType::kString);
  const PlainRows plain(signature, "");
  EXPECT_TRUE(plain.read(PlainLines{R"({"x": "a/b'c {[,:"})"}));
  for (const std::string_view line :
       {R"({"x": "a\n"})", R"({"x": "a\"b"})", "{\"x\": \"caf\xC3\xA9\"}", "{\"x\": \"\xFF\"}",
        "{\"x\": \"a\tb\"}", R"({"x": 1})", R"({"x": "a)"}) {
    EXPECT_FALSE(plain.read(PlainLines{line})) << line;
  }
}

TEST(PlainRows, LeavesInputsThatNoPlainValueFillsToTheOtherReaders) {
  for (const SignatureDef& signature :
       {one_plain_input(DataType::kBool),
        SignatureDef{.inputs = {{"x", plain_info(DataType::kFloat, {-1, 1})}}}, SignatureDef{}}) {
    EXPECT_FALSE(PlainRows(signature, "").read(PlainLines{R"({"x": 1})"}));
  }
  const SignatureDef base64{.inputs = {{"b64", plain_info(DataType::kString)}}};
  EXPECT_FALSE(PlainRows(base64, "").read(PlainLines{R"({"b64": "QQ=="})"}));
}

TEST(PlainRows, KeepsWholeNumbersInTheirRange) {
  const SignatureDef bytes = one_plain_input(DataType::kUint8);
  EXPECT_TRUE(PlainRows(bytes, "").read(PlainLines{R"({"x": 255})"}));
  EXPECT_FALSE(PlainRows(bytes, "").read(PlainLines{R"({"x": 256})"}));
  EXPECT_FALSE(PlainRows(bytes, "").read(PlainLines{R"({"x": -1})"}));
  EXPECT_FALSE(PlainRows(bytes, "").read(PlainLines{R"({"x": 1.0})"}));
  const SignatureDef real = one_plain_input(DataType::kDouble);
  const auto zeros =
      PlainRows(real, "").read(PlainLines{R"({"x": -0})", R"({"x": -0.0})", R"({"x": 1e-310})"});
  ASSERT_TRUE(zeros);
  EXPECT_FALSE(std::signbit(zeros->inputs.at("x").values<double>()[0]));
  EXPECT_TRUE(std::signbit(zeros->inputs.at("x").values<double>()[1]));
}

TEST(PlainRows, HandsKeysOn) {
  const SignatureDef signature = one_plain_input(DataType::kInt64);
  const auto rows = PlainRows(signature, "id")
                        .read(PlainLines{R"({"id": "a", "x": 1})", R"({"id": -7, "x": 2})"});
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->keys, (std::vector<std::string>{"\"a\"", "-7"}));
  const auto both = PlainRows(signature, "x").read(PlainLines{R"({"x": 5})"});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->keys, std::vector<std::string>{"5"});
  for (const std::string_view line : {R"({"x": 1})", R"({"id": 1.5, "x": 1})",
                                      R"({"id": 1, "x": 1, "id": 1})", R"({"id": [1], "x": 1})"}) {
    EXPECT_FALSE(PlainRows(signature, "id").read(PlainLines{line})) << line;
  }
}

// Tensors from the slow reader, which reports errors in full.
std::optional<Tensors> checked_plain_rows(const PlainLines& lines, const SignatureDef& signature) {
  std::string text;
  for (const std::string_view line : lines) text.append(line).append("\n");
  try {
    return Instances::from_json_lines(text).tensors(signature);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// One byte of a line changed, taken out, or doubled.
void mutate_plain(std::string& line, Random& random) {
  constexpr std::string_view kBytes = "{}[],:\"\\ 0-.eE19tn\x01\x7F\xC3\xA9";
  const std::size_t at = random.next_u32() % line.size();
  switch (random.next_u32() % 3) {
    case 0:
      line[at] = kBytes[random.next_u32() % kBytes.size()];
      break;
    case 1:
      line.erase(at, 1);
      break;
    default:
      line.insert(at, 1, line[at]);
  }
}

TEST(PlainRows, TakesNothingThatTheOtherReadersRefuseOrReadInAnotherWay) {
  const std::vector<std::string> whole{R"({"id": 1, "age": 39, "job": "Sales", "hours": 123})",
                                       R"({"id": "", "age": -0, "job": "", "hours": -3})",
                                       R"({"id": -0, "age": 1.5e-7, "job": "x", "hours": 214748})"};
  const SignatureDef signature = plain_person();
  SignatureDef with_id = signature;
  with_id.inputs.emplace("id", plain_info(DataType::kInt64));
  const bool has_fast_reader =
      fast_rows(PlainLines{R"({"x": 1})"}, one_plain_input(DataType::kDouble), "").has_value();
  Random random(7);
  int taken = 0;
  for (int i = 0; i < 6000; ++i) {
    std::vector<std::string> texts = whole;
    for (int n = random.next_u32() % 3; n >= 0; --n)
      mutate_plain(texts[random.next_u32() % 3], random);
    // All alike in half of the cases: the damage is in the layout then.
    if (i % 2 == 0) texts[1] = texts[2] = texts[0];
    const PlainLines lines(texts.begin(), texts.end());
    const auto plain = PlainRows(signature, "id").read(lines);
    if (plain && has_fast_reader) {
      const auto fast = fast_rows(lines, signature, "id");
      ASSERT_TRUE(fast) << ::testing::PrintToString(lines);
      ASSERT_EQ(plain->inputs, fast->inputs) << ::testing::PrintToString(lines);
      ASSERT_EQ(plain->keys, fast->keys) << ::testing::PrintToString(lines);
    }
    if (const auto all = PlainRows(with_id, "").read(lines)) {
      ++taken;
      const auto checked = checked_plain_rows(lines, with_id);
      ASSERT_TRUE(checked) << ::testing::PrintToString(lines);
      ASSERT_EQ(all->inputs, *checked) << ::testing::PrintToString(lines);
    }
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace muster::serving
