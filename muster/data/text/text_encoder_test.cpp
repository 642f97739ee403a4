#include "muster/data/text/text_encoder.h"

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "muster/data/text/word_piece.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, a 4, b 5, c 6, d 7, e 8.
TokenizerPtr letters() {
  return word_piece_from_bytes("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\nd\ne\n");
}

TEST(TextEncoder, PutsSpecialTokensAroundATextAndCutsItsEnd) {
  const TextEncoder encoder(letters(), {.max_length = 5});
  EXPECT_THAT(encoder.encode("a b").ids, ElementsAre(2, 4, 5, 3));
  EXPECT_THAT(encoder.encode("a b").token_types, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(encoder.encode("a b c d e").ids, ElementsAre(2, 4, 5, 6, 3));
  EXPECT_THAT(encoder.encode("").ids, ElementsAre(2, 3));
  EXPECT_EQ(encoder.encode("a", 7).label, 7);
}

TEST(TextEncoder, TakesNoSpecialTokensFromTheText) {
  const TextEncoder encoder(letters());
  EXPECT_THAT(encoder.encode("[SEP]").ids, ElementsAre(2, 1, 1, 1, 3));
}

TEST(TextEncoder, CutsTheBeginningAndHasNoSpecialTokensWhereAskedTo) {
  const TextEncoder encoder(letters(),
                            {.max_length = 2, .begin = "", .end = "", .truncate = TextSide::kLeft});
  EXPECT_THAT(encoder.encode("a b c").ids, ElementsAre(5, 6));
}

TEST(TextEncoder, OfTwoPartsTheLongerLosesTokensFirst) {
  const TextEncoder encoder(letters(), {.max_length = 7});
  const auto both = encoder.encode_pair("a b c d e", "c");
  EXPECT_THAT(both.ids, ElementsAre(2, 4, 5, 6, 3, 6, 3));
  EXPECT_THAT(both.token_types, ElementsAre(0, 0, 0, 0, 0, 1, 1));
  EXPECT_THAT(encoder.encode_pair("a", "c d e a b").ids, ElementsAre(2, 4, 3, 6, 7, 8, 3));
  EXPECT_THAT(encoder.encode_pair("a b c", "c d e").ids, ElementsAre(2, 4, 5, 3, 6, 7, 3));
  const TextEncoder odd(letters(), {.max_length = 6});
  EXPECT_THAT(odd.encode_pair("a b c", "c d e").ids, ElementsAre(2, 4, 5, 3, 6, 3));
}

TEST(TextEncoder, RefusesWhatCannotWork) {
  EXPECT_THROW(TextEncoder(nullptr), InvalidArgument);
  EXPECT_THAT(message_of([] { TextEncoder(letters(), {.begin = "<s>"}); }),
              HasSubstr("has no \"<s>\""));
  EXPECT_THAT(message_of([] { TextEncoder(letters(), {.max_length = 3}); }),
              HasSubstr("max_length must have room"));
}

TEST(PaddedTexts, FillsRowsToTheLongestTextOrToALength) {
  const TextEncoder encoder(letters());
  const std::vector<EncodedText> texts{encoder.encode("a b", 1), encoder.encode_pair("a", "b", 0)};
  const TextBatch batch = padded_texts(texts, {.id = 0});
  EXPECT_EQ(batch.count, 2);
  EXPECT_EQ(batch.length, 5);
  EXPECT_THAT(batch.ids, ElementsAre(2, 4, 5, 3, 0, 2, 4, 3, 5, 3));
  EXPECT_THAT(batch.mask, ElementsAre(1, 1, 1, 1, 0, 1, 1, 1, 1, 1));
  EXPECT_THAT(batch.token_types, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 1, 1));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0));
  EXPECT_EQ(padded_texts(texts, {.multiple_of = 8}).length, 8);
  const TextBatch left = padded_texts({texts[0]}, {.length = 6, .id = 9, .side = TextSide::kLeft});
  EXPECT_THAT(left.ids, ElementsAre(9, 9, 2, 4, 5, 3));
  EXPECT_THAT(left.mask, ElementsAre(0, 0, 1, 1, 1, 1));
  EXPECT_THAT(message_of([&] { padded_texts(texts, {.length = 4}); }),
              HasSubstr("text 1 of the batch has 5 ids"));
  EXPECT_EQ(padded_texts({}).length, 0);
}

}  // namespace
}  // namespace muster
