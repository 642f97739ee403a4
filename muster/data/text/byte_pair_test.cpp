#include "muster/data/text/byte_pair.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
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
using ::testing::HasSubstr;

// The 48 rules that the published training algorithm finds first in a licence and some other text.
constexpr std::string_view kRules =
    "#version: 0.2\n"
    "Ġ t\nĠ a\no n\ne r\nĠt h\no r\nĠ c\ni n\nĠ Ġ\nĠ w\ne n\nr e\nĠth e\na t\nĠ o\ni t\n"
    "s e\ni c\no u\nĠ p\ni on\nĊ Ċ\ni s\nĠo f\ne d\nr o\nv e\nĠ d\nl l\nĠt o\nin g\nĠ s\n"
    "Ġ f\nĠ m\nĠc o\nĠa n\na n\nĠ n\nĠ in\nĠ it\ny ou\nĠ or\nĠ you\ne s\nen t\nĠĠ Ġ\n"
    "c t\nic en\n";

// Bytes as GPT-2's vocabularies write and number them.
std::vector<std::string> byte_tokens() {
  std::vector<int> visible;
  std::vector<int> others;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_visible = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    (is_visible ? visible : others).push_back(byte);
  }
  const auto utf8 = [](int point) {
    if (point < 0x80) return std::string(1, static_cast<char>(point));
    return std::string{static_cast<char>(0xc0 | point >> 6),
                       static_cast<char>(0x80 | (point & 63))};
  };
  std::vector<std::string> tokens;
  for (const int byte : visible) tokens.push_back(utf8(byte));
  for (std::size_t i = 0; i < others.size(); ++i) tokens.push_back(utf8(256 + static_cast<int>(i)));
  return tokens;
}

std::string quoted(const std::string& token) {
  const bool escape = token == "\"" || token == "\\";
  return fmt::format("\"{}{}\"", escape ? "\\" : "", token);
}

// A vocabulary in GPT-2's order: bytes, wholes of the rules, the end of a text.
std::string vocabulary_json(std::vector<std::string> tokens = byte_tokens()) {
  for (std::size_t at = kRules.find('\n') + 1; at < kRules.size();) {
    const auto end = kRules.find('\n', at);
    std::string rule(kRules.substr(at, end - at));
    rule.erase(rule.find(' '), 1);
    tokens.push_back(rule);
    at = end + 1;
  }
  tokens.emplace_back("<|endoftext|>");
  std::string json;
  for (const auto& token : tokens) {
    json += fmt::format("{}{}: {}", json.empty() ? "{" : ", ", quoted(token),
                        std::count(json.begin(), json.end(), '\n'));
    json += '\n';
  }
  return json + "}";
}

// Ids that huggingface's tokenizers 0.23 gives with these files.
TEST(BytePair, GivesTheIdsOfAnotherImplementationAndTheTextBack) {
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> cases{
      {"Hello  world", {39, 68, 284, 78, 220, 265, 261, 75, 67}},
      {" the and that\n\n  in the code", {268, 291, 67, 260, 269, 277, 220, 294, 268, 290, 67, 68}},
      {"don't we'll IT'S 'tis",
       {67, 258, 6, 83, 265, 68, 6, 284, 220, 40, 51, 6, 50, 220, 6, 83, 278}},
      {"naïve café 東京 🙂", {77,  64,  127, 107, 282, 262, 64,  69,  127, 102, 220,
                                    162, 251, 109, 160, 118, 105, 220, 172, 253, 247, 224}},
      {"v3.14 costs $5...\t\tok ",
       {85, 18, 13, 16, 19, 290, 82, 83, 82, 220, 3, 20, 13, 13, 13, 197, 197, 78, 74, 220}},
      {"   ", {301}},
      {"", {}},
      {"a\u3000b\u00a0c", {64, 159, 222, 222, 65, 126, 254, 66}},
      {"<|endoftext|>", {27, 91, 266, 67, 78, 69, 83, 68, 87, 83, 91, 29}},
  };
  const auto tokenizer = byte_pair_from_bytes(vocabulary_json(), kRules);
  EXPECT_EQ(tokenizer->size(), 256 + 48 + 1);
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
}

TEST(BytePair, KnowsTokensByNameAndById) {
  const auto tokenizer = byte_pair_from_bytes(vocabulary_json(), kRules);
  EXPECT_EQ(tokenizer->id("<|endoftext|>"), 304);
  EXPECT_EQ(tokenizer->token(304), "<|endoftext|>");
  EXPECT_THAT(tokenizer->tokenize("the the"), ::testing::ElementsAre("t", "h", "e", "\u0120the"));
  EXPECT_THROW(tokenizer->id("[CLS]"), NotFound);
  EXPECT_THROW(tokenizer->decode(std::vector<std::int64_t>{305}), OutOfRange);
  EXPECT_THROW(tokenizer->decode(std::vector<std::int64_t>{-1}), OutOfRange);
}

TEST(BytePair, PutsASpaceInFrontWhereAskedTo) {
  const auto tokenizer =
      byte_pair_from_bytes(vocabulary_json(), kRules, {.add_prefix_space = true});
  EXPECT_THAT(tokenizer->tokenize("the"), ::testing::ElementsAre("\u0120the"));
  EXPECT_THAT(tokenizer->tokenize(" the"), ::testing::ElementsAre("\u0120the"));
}

TEST(BytePair, JoinsALongWordInTimeThatGrowsWithItsLength) {
  const auto tokenizer = byte_pair_from_bytes(vocabulary_json(), kRules);
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "er";
  EXPECT_EQ(tokenizer->encode(text).size(), 20'000U);
}

TEST(BytePair, RefusesTextThatIsNotUtf8WithTheOffset) {
  const auto tokenizer = byte_pair_from_bytes(vocabulary_json(), kRules);
  EXPECT_THAT(message_of([&] { tokenizer->encode("abc\xff"); }),
              HasSubstr("byte 0xff at offset 3"));
}

std::string message_of_files(const std::string& vocabulary, std::string_view rules) {
  return message_of([&] { byte_pair_from_bytes(vocabulary, rules); });
}

TEST(BytePair, RefusesVocabulariesWithOffsetOrToken) {
  const auto whole = vocabulary_json();
  EXPECT_THAT(message_of_files("", kRules), HasSubstr("no JSON at offset 0"));
  EXPECT_THAT(message_of_files("{\"a\": 0, }", kRules), HasSubstr("no JSON at offset 9"));
  EXPECT_THAT(message_of_files(whole.substr(0, 100), kRules), HasSubstr("no JSON at offset 100"));
  EXPECT_THAT(message_of_files("[1]", kRules), HasSubstr("should be a JSON object"));
  EXPECT_THAT(message_of_files("{}", kRules), HasSubstr("no tokens"));
  EXPECT_THAT(message_of_files("{\"a\": {\"b\": 1}}", kRules),
              HasSubstr("token \"a\" should have a whole number as its id: an object"));
  EXPECT_THAT(message_of_files("{\"a\": -1}", kRules), HasSubstr("token \"a\" has the id -1"));
  EXPECT_THAT(message_of_files("{\"a\": 0.5}", kRules), HasSubstr("token \"a\""));
  EXPECT_THAT(message_of_files("{\"a\": 9000000000000}", kRules),
              HasSubstr("token \"a\" has the id 9000000000000, and 1 tokens have ids below 1"));
  EXPECT_THAT(message_of_files("{\"a\": 1, \"b\": 1}", kRules),
              HasSubstr("tokens \"a\" and \"b\" have the id 1"));
  EXPECT_THAT(message_of_files("{\"a\": 0, \"a\": 1}", kRules),
              HasSubstr("\"a\" occurs twice, with the ids 0 and 1"));
  auto tokens = byte_tokens();
  tokens[0] = "!!";
  EXPECT_THAT(message_of_files(vocabulary_json(tokens), kRules),
              HasSubstr("there is no \"!\", the token of byte 0x21"));
}

TEST(BytePair, RefusesRulesWithTheLine) {
  const auto vocabulary = vocabulary_json();
  const auto message = [&](std::string_view rules) { return message_of_files(vocabulary, rules); };
  EXPECT_THAT(message("o n\no\n"), HasSubstr("line 2 is no rule"));
  EXPECT_THAT(message("o n e\n"), HasSubstr("line 1 is no rule"));
  EXPECT_THAT(message("o n\nz z\n"), HasSubstr("line 2: \"zz\" is not in the vocabulary"));
  EXPECT_THAT(message("o n\no n\n"), HasSubstr("line 2: there is a rule for \"o n\" above"));
  EXPECT_THAT(message("o n\n\xff n\n"), HasSubstr("line 2 is not UTF-8 from byte 1 on"));
}

TEST(BytePair, ErrorsNameTheFile) {
  const testing::TempDir folder;
  const Path vocabulary = folder / "vocab.json";
  const Path merges = folder / "merges.txt";
  const auto message = [&] { return message_of([&] { byte_pair_tokenizer(vocabulary, merges); }); };
  testing::write_bytes(vocabulary, "{");
  EXPECT_THAT(message(), HasSubstr("vocab.json: it is no JSON"));
  testing::write_bytes(vocabulary, vocabulary_json());
  EXPECT_THAT(message(), HasSubstr("merges.txt"));
  testing::write_bytes(merges, "o n\no\n");
  EXPECT_THAT(message(), HasSubstr("merges.txt: line 2 is no rule"));
  testing::write_bytes(merges, kRules);
  EXPECT_EQ(byte_pair_tokenizer(vocabulary, merges)->encode(" the").size(), 1U);
}

}  // namespace
}  // namespace muster
