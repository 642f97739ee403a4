#include <gmock/gmock.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/data/features/column_set.h"
#include "muster/data/features/feature_column.h"
#include "muster/data/features/sequence_input.h"
#include "muster/data/text/word_piece.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;

TokenizerPtr three_words() { return word_piece_from_bytes("[UNK]\ngood\nbad\nfood\n"); }

Features three_texts() {
  return {{"text", StringColumn(std::vector<std::string>{"Good food, good!", "", "bad"}, {3})}};
}

TEST(TokenizerColumn, CountsTheTokensOfText) {
  const auto column = categorical_column_with_tokenizer("text", three_words());
  EXPECT_TRUE(column.is_categorical());
  EXPECT_EQ(column.num_buckets(), 4);
  const auto pieces =
      ColumnSet({indicator_column(column)}, ColumnUse::kInputLayer).pieces(three_texts());
  EXPECT_TRUE(at::equal(
      std::get<at::Tensor>(pieces.at(0).value),
      torch::tensor(
          {{2.0F, 2.0F, 0.0F, 1.0F}, {0.0F, 0.0F, 0.0F, 0.0F}, {0.0F, 0.0F, 1.0F, 0.0F}})));
}

TEST(TokenizerColumn, GivesSequencesOfLimitedLength) {
  const auto column = sequence_categorical_column_with_tokenizer("text", three_words(), 3);
  const auto input = sequence_input({column}, three_texts());
  EXPECT_TRUE(
      at::equal(input.ids.tensor("text"), torch::tensor({{1, 3, 0}, {-1, -1, -1}, {2, -1, -1}})));
  EXPECT_TRUE(at::equal(input.lengths, torch::tensor({3, 0, 1})));
}

TEST(TokenizerColumn, RefusesWhatCannotWorkAndNamesColumnAndRow) {
  EXPECT_THROW(categorical_column_with_tokenizer("", three_words()), InvalidArgument);
  EXPECT_THAT(message_of([] { categorical_column_with_tokenizer("text", nullptr); }),
              HasSubstr("\"text\" needs a tokenizer"));
  EXPECT_THAT(message_of([] { categorical_column_with_tokenizer("text", three_words(), -1); }),
              HasSubstr("max_tokens"));
  const auto column = indicator_column(categorical_column_with_tokenizer("text", three_words()));
  const Features damaged{{"text", StringColumn(std::vector<std::string>{"bad", "b\xff"}, {2})}};
  EXPECT_THAT(message_of([&] { ColumnSet({column}, ColumnUse::kInputLayer).pieces(damaged); }),
              HasSubstr("column \"text\": row 1: the text is not UTF-8: byte 0xff at offset 1"));
}

}  // namespace
}  // namespace muster
