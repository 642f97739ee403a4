#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/serving/codec/fast_request.h"
#include "muster/serving/codec/predict_request.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::SignatureDef;
using Lines = std::vector<std::string_view>;

graph::TensorInfo info_of(DataType type) {
  return {.name = "x:0", .dtype = type, .shape = graph::Shape::any()};
}

SignatureDef employee() {
  return {.inputs = {{"age", info_of(DataType::kFloat)},
                     {"job", info_of(DataType::kString)},
                     {"ids", info_of(DataType::kInt64)}}};
}

SignatureDef one_number() { return {.inputs = {{"x", info_of(DataType::kDouble)}}}; }

bool has_fast_reader() { return fast_rows(Lines{"1"}, one_number(), "").has_value(); }

TEST(FastRows, TakesOneInstanceOfEachLine) {
  if (!has_fast_reader()) GTEST_SKIP() << "simdjson was not there when this was built";
  const auto rows = fast_rows(Lines{R"({"age": 39, "job": "Sales", "ids": [1, 2]})",
                                    " {\"ids\":[3,-4],\"age\":2.5e1,\"job\":\"caf\\u00e9\"}\t"},
                              employee(), "");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->inputs.at("age").values<float>(), (std::vector<float>{39, 25}));
  EXPECT_EQ(rows->inputs.at("job").strings, (std::vector<std::string>{"Sales", "caf\xC3\xA9"}));
  EXPECT_EQ(rows->inputs.at("ids").values<std::int64_t>(),
            (std::vector<std::int64_t>{1, 2, 3, -4}));
  EXPECT_EQ(rows->inputs.at("ids").shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_TRUE(rows->keys.empty());
}

TEST(FastRows, LeavesWhatIsNotOneInstanceALineToTheOtherReader) {
  const std::vector<Lines> texts{{"1", ""},
                                 {"1", " "},
                                 {"1,2"},
                                 {"1 2"},
                                 {"1", "2 3"},
                                 {"1", "2,"},
                                 {"1", "2]"},
                                 {"1", "2 \"a"},
                                 {"1", "2", "]"},
                                 {"1,", "2"},
                                 {"[1", "2]"},
                                 {"[1", "2],[3]"},
                                 {"[1]", "[2],[3", "4]"},
                                 {"{\"x\": 1} {\"x\":", "2}"},
                                 {"{\"x\": 1}", "{\"x\": 2}}"},
                                 {"1", "[]", "[]"}};
  for (const Lines& lines : texts) {
    EXPECT_FALSE(fast_rows(lines, one_number(), "")) << ::testing::PrintToString(lines);
  }
}

TEST(FastRows, GivesKeysAsTheyStand) {
  if (!has_fast_reader()) GTEST_SKIP() << "simdjson was not there when this was built";
  const auto rows =
      fast_rows(Lines{R"({"id": [1, "a"], "x": 1})", R"({"x": 2, "id": 7})"}, one_number(), "id");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->keys, (std::vector<std::string>{R"([1,"a"])", "7"}));
  EXPECT_FALSE(fast_rows(Lines{R"({"x": 1})"}, one_number(), "id"));
  EXPECT_FALSE(fast_rows(Lines{R"({"b64": "QQ==", "x": 1})"}, one_number(), "b64"));
}

// Tensors from the slow reader, which reports errors in full.
std::optional<Tensors> slow_rows(const Lines& lines, const SignatureDef& signature) {
  std::string text;
  for (const std::string_view line : lines) text.append(line).append("\n");
  try {
    return Instances::from_json_lines(text).tensors(signature);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// One byte of a line changed, taken out, or doubled.
void damage(std::string& line, Random& random) {
  constexpr std::string_view kBytes = "{}[],:\"\\ 0-.eE1tn\x01\xC3\xA9";
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

TEST(FastRows, TakesNothingThatTheOtherReaderRefusesOrReadsInAnotherWay) {
  const std::vector<std::string> whole{R"({"age": 39, "job": "Sa\"les", "ids": [1, 22]})",
                                       R"({"age": -0, "job": "", "ids": [-3, 4]})",
                                       R"({"job": "x", "age": 1.5e-7, "ids": [0, 18446744]})"};
  Random random(7);
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> texts = whole;
    for (int n = random.next_u32() % 3; n >= 0; --n) damage(texts[random.next_u32() % 3], random);
    const Lines lines(texts.begin(), texts.end());
    const auto fast = fast_rows(lines, employee(), "");
    if (!fast) continue;
    ++taken;
    const auto slow = slow_rows(lines, employee());
    ASSERT_TRUE(slow) << ::testing::PrintToString(lines);
    ASSERT_EQ(fast->inputs, *slow) << ::testing::PrintToString(lines);
  }
  if (has_fast_reader()) EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace muster::serving
