#include "muster/data/features/vocabulary.h"

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Vocabulary, GivesAWordItsPlace) {
  const Vocabulary words({"omar", "", "stringer"});
  EXPECT_EQ(words.size(), 3);
  EXPECT_EQ(words.find("omar"), 0);
  EXPECT_EQ(words.find(""), 1);
  EXPECT_EQ(words.find("stringer"), 2);
  EXPECT_EQ(words.find("string"), -1);
}

TEST(Vocabulary, FindsEveryOneOfManyWords) {
  std::vector<std::string> list;
  for (int i = 0; i < 3000; ++i) list.push_back("word" + std::to_string(i));
  const Vocabulary words(list);
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(words.find(list[static_cast<std::size_t>(i)]), i);
  EXPECT_EQ(words.find("word3000"), -1);
}

TEST(Vocabulary, ComparesWordsWhereFingerprintsAgree) {
  const Vocabulary words({"omar", "stringer"});
  EXPECT_EQ(words.find("omar", fingerprint64("omar")), 0);
  EXPECT_EQ(words.find("marlo", fingerprint64("omar")), -1);
}

TEST(Vocabulary, RejectsNoWordsAndTheSameWordTwice) {
  EXPECT_THROW(Vocabulary({}), InvalidArgument);
  EXPECT_THAT(message_of([] {
                Vocabulary({"a", "b", "a"});
              }),
              HasSubstr("\"a\" occurs twice in the vocabulary: words 1 and 3"));
}

class VocabularyFile : public ::testing::Test {
 protected:
  Path write(std::string_view text) {
    const Path path = dir_.path() / "words.txt";
    write_file_atomically(path, text, /*durable=*/false);
    return path;
  }

 private:
  testing::TempDir dir_;
};

TEST_F(VocabularyFile, HoldsOneWordALine) {
  const auto file = write("omar\n stringer\r\nmarlo");
  EXPECT_THAT(Vocabulary::from_file(file).words(), ElementsAre("omar", " stringer", "marlo"));
  EXPECT_THAT(Vocabulary::from_file(write("omar\nmarlo\n")).words(), ElementsAre("omar", "marlo"));
}

TEST_F(VocabularyFile, IsReadUpToTheSizeAskedFor) {
  // The second "omar" comes after what is asked for.
  const auto file = write("omar\nmarlo\nomar\n");
  EXPECT_THAT(Vocabulary::from_file(file, 2).words(), ElementsAre("omar", "marlo"));
  EXPECT_THAT(message_of([&] { Vocabulary::from_file(file); }),
              HasSubstr("words.txt: \"omar\" occurs twice in the vocabulary: lines 1 and 3"));
  EXPECT_THAT(message_of([&] { Vocabulary::from_file(file, 4); }),
              HasSubstr("it has 3 lines, fewer than vocabulary_size = 4"));
  EXPECT_THROW(Vocabulary::from_file(file, 0), InvalidArgument);
}

TEST_F(VocabularyFile, MustBeThere) {
  EXPECT_THROW(Vocabulary::from_file("/nowhere/words.txt"), NotFound);
}

TEST(Vocabulary, OfNumbersHasTheirShortestText) {
  const auto numbers = Vocabulary({"07", "-3", "12"}).as_numbers();
  EXPECT_THAT(numbers.words(), ElementsAre("7", "-3", "12"));
  EXPECT_THAT(message_of([] {
                Vocabulary({"1", "two"}).as_numbers();
              }),
              HasSubstr("word 2 of the vocabulary, \"two\", is not a whole number"));
}

}  // namespace
}  // namespace muster
