#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/records/example_builder.h"
#include "muster/saved_model/executor/one_node_internal.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using graph::AttrValue;
using graph::DataType;
using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Numbers = std::vector<std::int64_t>;
using Words = std::vector<std::string>;

AttrValue word_list(const Words& words) { return AttrValue::list(words); }
AttrValue type_list(const std::vector<DataType>& types) { return AttrValue::list(types); }
AttrValue shape_list(const std::vector<graph::Shape>& shapes) { return AttrValue::list(shapes); }
StringTensor words_of(const Words& words) { return StringTensor(words); }
StringTensor scalar_word(const std::string& word) { return StringTensor({word}, {}); }

// Two steps of ids {7} and {8, 9}, of pairs {1, 2} and {3, 4}, words of the context a and b.
std::string long_sequence() {
  SequenceExampleBuilder builder;
  builder.context().add_bytes("word", std::vector<std::string_view>{"a", "b"});
  builder.context().add_int("age", 30);
  builder.add_step("ids", std::vector<std::int64_t>{7});
  builder.add_step("ids", std::vector<std::int64_t>{8, 9});
  builder.add_step("pairs", std::vector<float>{1, 2});
  builder.add_step("pairs", std::vector<float>{3, 4});
  builder.add_step("text", std::vector<std::string_view>{"s"});
  return builder.serialize();
}

// One step, no age and no text.
std::string short_sequence() {
  SequenceExampleBuilder builder;
  builder.context().add_bytes("word", std::vector<std::string_view>{"c"});
  builder.add_step("ids", std::vector<std::int64_t>{5});
  builder.add_step("pairs", std::vector<float>{5, 6});
  return builder.serialize();
}

graph::Attrs sequence_attrs() {
  return {{"context_sparse_types", type_list({DataType::kString})},
          {"Tcontext_dense", type_list({DataType::kInt64})},
          {"context_dense_shapes", shape_list({graph::Shape{}})},
          {"feature_list_sparse_types", type_list({DataType::kInt64})},
          {"feature_list_dense_types", type_list({DataType::kFloat, DataType::kString})},
          {"feature_list_dense_shapes", shape_list({graph::Shape{2}, graph::Shape{}})},
          {"Ncontext_sparse", 1},
          {"Nfeature_list_sparse", 1},
          {"Nfeature_list_dense", 2}};
}

graph::Attrs keyed_attrs() {
  auto attrs = sequence_attrs();
  attrs.insert({{"context_sparse_keys", word_list({"word"})},
                {"context_dense_keys", word_list({"age"})},
                {"feature_list_sparse_keys", word_list({"ids"})},
                {"feature_list_dense_keys", word_list({"pairs", "text"})},
                {"feature_list_dense_missing_assumed_empty", word_list({"text"})}});
  return attrs;
}

void expect_numbers(const Value& found, const Numbers& wanted, const Numbers& shape) {
  const auto& tensor = std::get<at::Tensor>(found);
  EXPECT_TRUE(tensor.to(at::kLong).equal(at::tensor(wanted, at::kLong).reshape(shape))) << tensor;
}

at::Tensor minus_one() { return at::full({}, -1, at::kLong); }

// The outputs of a batch of both: see the order in the registry.
void expect_batch(const std::vector<Value>& out, std::size_t lists) {
  expect_numbers(out[0], {0, 0, 0, 1, 1, 0}, {3, 2});
  EXPECT_THAT(std::get<StringTensor>(out[1]).values(), ElementsAre("a", "b", "c"));
  expect_numbers(out[2], {2, 2}, {2});
  expect_numbers(out[3], {30, -1}, {2});
  expect_numbers(out[lists], {0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 0, 0}, {4, 3});
  expect_numbers(out[lists + 1], {7, 8, 9, 5}, {4});
  expect_numbers(out[lists + 2], {2, 2, 2}, {3});
  expect_numbers(out[lists + 3], {1, 2, 3, 4, 5, 6, 0, 0}, {2, 2, 2});
  const auto& text = std::get<StringTensor>(out[lists + 4]);
  EXPECT_THAT(text.values(), ElementsAre("s", ""));
  EXPECT_EQ(text.shape(), (Numbers{2, 1}));
  expect_numbers(out[lists + 5], {2, 1}, {2});
  expect_numbers(out[lists + 6], {1, 0}, {2});
}

TEST(ParseSequenceExample, FillsUpShorterLists) {
  const std::vector<Value> inputs{words_of({long_sequence(), short_sequence()}), words_of({}),
                                  minus_one()};
  expect_batch(run_one_node("ParseSequenceExample", inputs, keyed_attrs(), 9 + 2), 4);
}

TEST(ParseSequenceExample, NeedsWhatMayNotMiss) {
  auto attrs = keyed_attrs();
  attrs.insert_or_assign("feature_list_dense_missing_assumed_empty", word_list({"pairs"}));
  const std::vector<Value> inputs{words_of({long_sequence(), short_sequence()}), words_of({}),
                                  minus_one()};
  EXPECT_THAT(message_of([&] { run_one_node("ParseSequenceExample", inputs, attrs, 1); }),
              HasSubstr("'text'"));
  auto wrong = keyed_attrs();
  wrong.insert_or_assign("context_dense_keys", word_list({}));
  EXPECT_THAT(message_of([&] { run_one_node("ParseSequenceExample", inputs, wrong, 1); }),
              HasSubstr("dense context"));
}

TEST(ParseSequenceExampleV2, TakesKeysAsInputsAndGivesRaggedLists) {
  auto attrs = sequence_attrs();
  attrs.insert({{"context_ragged_value_types", type_list({DataType::kString})},
                {"context_ragged_split_types", type_list({DataType::kInt32})},
                {"feature_list_ragged_value_types", type_list({DataType::kInt64})},
                {"feature_list_ragged_split_types", type_list({DataType::kInt64})}});
  const at::Tensor may_miss = at::tensor(Numbers{0, 1}).to(at::kBool);
  std::vector<Value> inputs{words_of({long_sequence(), short_sequence()}),
                            words_of({}),
                            words_of({"word"}),
                            words_of({"age"}),
                            words_of({"other"}),
                            words_of({"ids"}),
                            words_of({"pairs", "text"}),
                            words_of({"more"}),
                            may_miss,
                            minus_one()};
  auto out = run_one_node("ParseSequenceExampleV2", inputs, attrs, 10);
  expect_numbers(out[3], {30, -1}, {2});
  EXPECT_TRUE(std::get<StringTensor>(out[4]).values().empty());
  expect_numbers(out[5], {0, 0, 0}, {3});
  EXPECT_EQ(std::get<at::Tensor>(out[5]).scalar_type(), at::kInt);
  expect_numbers(out[7], {7, 8, 9, 5}, {4});
  // The lists of "ids" again, now ragged.
  inputs[5] = words_of({"none"});
  inputs[7] = words_of({"ids"});
  for (const auto* name : {"context_sparse_types", "Tcontext_dense", "context_dense_shapes",
                           "context_ragged_value_types", "context_ragged_split_types",
                           "feature_list_dense_types", "feature_list_dense_shapes"}) {
    attrs.erase(name);
  }
  for (const std::size_t index : {2, 3, 4, 6}) inputs[index] = words_of({});
  inputs[8] = at::empty({0}, at::kBool);
  inputs.resize(9, may_miss);
  out = run_one_node("ParseSequenceExampleV2", inputs, attrs, 6);
  expect_numbers(out[3], {7, 8, 9, 5}, {4});
  expect_numbers(out[4], {0, 2, 3}, {3});
  expect_numbers(out[5], {0, 1, 3, 4}, {4});
}

TEST(ParseSingleSequenceExample, HasNoAxisForABatch) {
  const auto out = run_one_node(
      "ParseSingleSequenceExample",
      {scalar_word(long_sequence()), words_of({"text"}), scalar_word("word"), scalar_word("age"),
       scalar_word("ids"), scalar_word("pairs"), scalar_word("text"), minus_one(), scalar_word("")},
      sequence_attrs(), 9);
  expect_numbers(out[0], {0, 1}, {2, 1});
  expect_numbers(out[2], {2}, {1});
  expect_numbers(out[3], {30}, {});
  expect_numbers(out[4], {0, 0, 1, 0, 1, 1}, {3, 2});
  expect_numbers(out[6], {2, 2}, {2});
  expect_numbers(out[7], {1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(std::get<StringTensor>(out[8]).shape(), (Numbers{1}));
  EXPECT_THROW(run_one_node("ParseSingleSequenceExample",
                            {words_of({long_sequence()}), words_of({}), scalar_word("")}, {}, 1),
               InvalidArgument);
}

}  // namespace
}  // namespace muster::executor
