#include "muster/data/text/word_piece.h"

#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kPieces =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwant\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\n.\n!\n"
    "東\n京\nthe\ncafe\n##s\n$\n5\nstraße\nstrasse\n##ß\ni\n##stanbul\nx\n[\n]\ncls\n"
    "naive\n##2\n";

// With the zeros in it.
template <std::size_t N>
std::string text(const char (&literal)[N]) {
  return {literal, N - 1};
}

using WordPieceCases = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

void expect_ids(const TokenizerPtr& tokenizer, const WordPieceCases& cases) {
  for (const auto& [given, ids] : cases) EXPECT_EQ(tokenizer->encode(given), ids) << given;
}

// Ids that huggingface's tokenizers 0.23 gives with this vocabulary, uncased and cased.
TEST(WordPiece, GivesTheIdsOfAnotherImplementation) {
  expect_ids(word_piece_from_bytes(kPieces),
             {
                 {text("UNwantéd,running"), {8, 5, 6, 11, 9, 10}},
                 {text("unwantedX running"), {1, 9, 10}},
                 {text("The cafés東京!"), {16, 17, 18, 14, 15, 13}},
                 {text("ISTANBUL İstanbul straße STRASSE"), {24, 25, 24, 25, 21, 22}},
                 {text("$5 wanted\u00a0un\u200bwanted\0 want\tun"), {19, 20, 4, 6, 8, 5, 6, 4, 8}},
                 {text("[CLS] naïve nai\u0308ve"), {27, 29, 28, 30, 30}},
                 {text(""), {}},
                 {text("x豈x x\u2028x"), {26, 1, 26, 26, 26}},
                 {text("!!wants..."), {13, 13, 4, 18, 12, 12, 12}},
             });
}

TEST(WordPiece, KeepsCaseAndAccentsOfCasedVocabularies) {
  expect_ids(word_piece_from_bytes(kPieces, {.lower_case = false, .strip_accents = false}),
             {
                 {text("UNwantéd,running"), {1, 11, 9, 10}},
                 {text("unwantedX running"), {1, 9, 10}},
                 {text("The cafés東京!"), {1, 1, 14, 15, 13}},
                 {text("ISTANBUL İstanbul straße STRASSE"), {1, 1, 21, 1}},
                 {text("$5 wanted\u00a0un\u200bwanted\0 want\tun"), {19, 20, 4, 6, 8, 5, 6, 4, 8}},
                 {text("[CLS] naïve nai\u0308ve"), {27, 1, 28, 1, 1}},
                 {text(""), {}},
                 {text("x豈x x\u2028x"), {26, 1, 26, 26, 26}},
                 {text("!!wants..."), {13, 13, 4, 18, 12, 12, 12}},
             });
}

TEST(WordPiece, TakesTheLongestPieceFirstAndTheWholeWordOrNothing) {
  const auto tokenizer = word_piece_from_bytes(kPieces);
  EXPECT_THAT(tokenizer->tokenize("unwanted wanting"),
              ElementsAre("un", "##want", "##ed", "want", "##ing"));
  EXPECT_THAT(tokenizer->tokenize("wantedx"), ElementsAre("[UNK]"));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Unwanted, running!")), "unwanted , running !");
}

TEST(WordPiece, WordsThatAreTooLongAreUnknown) {
  const auto tokenizer = word_piece_from_bytes(kPieces, {.max_word_length = 4});
  EXPECT_THAT(tokenizer->tokenize("want wanted caf\u00e9 caf\u00e9s"),
              ElementsAre("want", "[UNK]", "cafe", "[UNK]"));
}

TEST(WordPiece, TakesIdeographsTogetherWhereAskedTo) {
  const auto tokenizer =
      word_piece_from_bytes("[UNK]\n\u6771\u4eac\n", {.split_ideographs = false});
  EXPECT_THAT(tokenizer->tokenize("\u6771\u4eac"), ElementsAre("\u6771\u4eac"));
}

TEST(WordPiece, RefusesVocabulariesWithFileAndLine) {
  const auto message = [](std::string_view bytes) {
    return message_of([&] { word_piece_from_bytes(bytes); });
  };
  EXPECT_THAT(message(""), HasSubstr("no tokens"));
  EXPECT_THAT(message("[UNK]\n\na\n"), HasSubstr("line 2 is empty"));
  EXPECT_THAT(message("[UNK]\na\na\n"), HasSubstr("\"a\" occurs twice: lines 2 and 3"));
  EXPECT_THAT(message("[UNK]\na\xc3\n"), HasSubstr("line 2 is not UTF-8 from byte 2 on"));
  EXPECT_THAT(message("a\n"), HasSubstr("no \"[UNK]\", which unknown words become"));
  const testing::TempDir folder;
  testing::write_bytes(folder / "vocab.txt", "[UNK]\na\na\n");
  EXPECT_THAT(message_of([&] { word_piece_tokenizer(folder / "vocab.txt"); }),
              HasSubstr("vocab.txt: \"a\" occurs twice"));
  EXPECT_THROW(word_piece_tokenizer(folder / "none.txt"), NotFound);
  testing::write_bytes(folder / "vocab.txt", "[UNK]\r\na\r\n");
  EXPECT_THAT(word_piece_tokenizer(folder / "vocab.txt")->encode("A"), ElementsAre(1));
}

TEST(WordPiece, RefusesTextThatIsNotUtf8) {
  EXPECT_THAT(message_of([] { word_piece_from_bytes(kPieces)->encode("ab \xed\xa0\x80"); }),
              HasSubstr("byte 0xed at offset 3"));
}

}  // namespace
}  // namespace muster
