#include "muster/serving/codec/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

using graph::TensorValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Predictions, AreOneObjectARow) {
  const Predictions all(
      {{"probabilities", TensorValue::of<float>({2, 2}, std::vector<float>{0.25F, 0.75F, 1, 0.1F})},
       {"classes", TensorValue::of_strings({2, 1}, {"0", "a \"b\"\n"})},
       {"id", TensorValue::vector<std::int64_t>({-7, 8})}});
  EXPECT_EQ(all.size(), 2);
  EXPECT_THAT(all.keys(), ElementsAre("classes", "id", "probabilities"));
  EXPECT_EQ(all.json(0), R"({"classes": ["0"], "id": -7, "probabilities": [0.25, 0.75]})");
  EXPECT_EQ(all.json(1),
            R"({"classes": ["a \"b\"\n"], "id": 8, "probabilities": [1.0, 0.10000000149011612]})");
}

TEST(Predictions, OfRowsThatAreAlikeAreWrittenAlike) {
  const Predictions all({{"all_ids", TensorValue::of<std::int64_t>(
                                         {3, 2}, std::vector<std::int64_t>{0, 1, 0, 1, 0, 1})},
                         {"last", TensorValue::of<float>({3, 1}, std::vector<float>{0, 0, -0.0F})},
                         {"names", TensorValue::of_strings({3, 2}, {"a", "b", "a", "b", "a", "b"})},
                         {"word", TensorValue::of_strings({3}, {"x", "x", "y"})}});
  EXPECT_EQ(all.json(0), R"({"all_ids": [0, 1], "last": [0.0], "names": ["a", "b"], "word": "x"})");
  EXPECT_EQ(all.json(1), all.json(0));
  EXPECT_EQ(all.json(2),
            R"({"all_ids": [0, 1], "last": [-0.0], "names": ["a", "b"], "word": "y"})");
  const Predictions bad({{"word", TensorValue::of_strings({2}, {"\xFF", "\xFF"})}});
  EXPECT_THAT(message_of([&] { bad.json(1); }), HasSubstr("output word: a string is no UTF-8"));
}

TEST(Predictions, AreShownInCellsAsPythonShowsLists) {
  const Predictions all(
      {{"p", TensorValue::of<float>({1, 3}, std::vector<float>{0.5F, kInfinity, -kInfinity})},
       {"s", TensorValue::of_strings({1, 3}, {">50K", "it's", "'\"\x1b"})},
       {"bare", TensorValue::of_strings({1}, {"it's\n"})},
       {"b", TensorValue::of<bool>({1, 2}, std::array{true, false})}});
  EXPECT_EQ(all.cell(0, "p"), "[0.5, inf, -inf]");
  EXPECT_EQ(all.cell(0, "s"), R"(['>50K', "it's", '\'"\x1b'])");
  EXPECT_EQ(all.cell(0, "bare"), R"(it's\n)");
  EXPECT_EQ(all.cell(0, "b"), "[True, False]");
  EXPECT_THAT(
      all.json(0),
      HasSubstr(R"("b": [true, false], "bare": "it's\n", "p": [0.5, Infinity, -Infinity])"));
}

TEST(Predictions, GiveBytesInBase64WhenTheNameSaysSo) {
  const TensorValue bytes = TensorValue::of_strings({1}, {std::string("\0\xFF", 2)});
  const Predictions good({{"image_bytes", bytes}});
  EXPECT_EQ(good.json(0), R"({"image_bytes": {"b64": "AP8="}})");
  EXPECT_EQ(good.cell(0, "image_bytes"), "{'b64': 'AP8='}");
  const Predictions bad({{"image", bytes}});
  EXPECT_THAT(message_of([&] { bad.json(0); }),
              HasSubstr("output image: a string is no UTF-8 text"));
  EXPECT_THAT(message_of([&] { bad.cell(0, "image"); }), HasSubstr("output image"));
}

TEST(Predictions, CountAScalarAsOneRowAndRefuseDifferingSizes) {
  EXPECT_EQ(Predictions({{"loss", TensorValue::scalar<double>(2.5)}}).json(0), R"({"loss": 2.5})");
  EXPECT_EQ(Predictions({{"e", TensorValue::of<float>({0, 2}, {})}}).size(), 0);
  EXPECT_EQ(Predictions({{"e", TensorValue::of<float>({1, 0}, {})}}).json(0), R"({"e": []})");
  EXPECT_THAT(message_of([] {
                Predictions({{"a", TensorValue::vector<float>({1, 2})},
                             {"b", TensorValue::vector<float>({1})}});
              }),
              HasSubstr("outputs had differing sizes in the batch (outer) dimension. See the "
                        "outputs and their size: a: 2, b: 1."));
}

}  // namespace
}  // namespace muster::serving
