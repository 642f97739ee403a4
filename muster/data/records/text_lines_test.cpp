#include "muster/data/records/text_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "muster/base/error.h"
#include "muster/data/records/compressor_internal.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_bytes;

std::vector<std::string> lines_of(const std::string& text, const TextLineOptions& options = {}) {
  const TempDir folder;
  write_bytes(folder / "x.txt", text);
  const auto source = open_text_lines(folder / "x.txt", options);
  std::vector<std::string> lines;
  for (Record line; source->next(line);) lines.emplace_back(line.bytes);
  return lines;
}

TEST(TextLines, TakesLineEndsOffBothKinds) {
  EXPECT_THAT(lines_of("one\ntwo\r\n\nthree\n"), ElementsAre("one", "two", "", "three"));
}

TEST(TextLines, GivesALastLineWithoutAnEnd) {
  EXPECT_THAT(lines_of("one\ntwo"), ElementsAre("one", "two"));
}

TEST(TextLines, OfAnEmptyFileAreNone) { EXPECT_THAT(lines_of(""), ElementsAre()); }

TEST(TextLines, PassesOverHeaderLines) {
  EXPECT_THAT(lines_of("head\n\"open\nrest\n", {.skip_header_lines = 2}), ElementsAre("rest"));
  EXPECT_THAT(lines_of("head\n", {.skip_header_lines = 5}), ElementsAre());
}

TEST(TextLines, KeepsRecordsAliveWhenTheReaderHasGoneOnAndAway) {
  const TempDir folder;
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 100'000; ++i) {  // several blocks
    expected.push_back(
        fmt::format("line {} {}", i, std::string(static_cast<std::size_t>(i % 50), 'x')));
    text += expected.back() + "\n";
  }
  write_bytes(folder / "x.txt", text);
  std::vector<Record> records;
  auto source = open_text_lines(folder / "x.txt");
  for (Record line; source->next(line);) records.push_back(line);
  source.reset();
  ASSERT_EQ(records.size(), expected.size());
  for (std::size_t i = 0; i < records.size(); ++i) ASSERT_EQ(records[i].bytes, expected[i]);
}

TEST(TextLines, ReadsALineLongerThanABlock) {
  const std::string longer(3'000'000, 'y');
  EXPECT_THAT(lines_of("a\n" + longer + "\nb"), ElementsAre("a", longer, "b"));
}

TEST(TextLines, RefusesALineBeyondTheLimitWithItsNumberEachTime) {
  const TempDir folder;
  write_bytes(folder / "x.txt", "short\n" + std::string(1000, 'z') + "\nend\n");
  const auto source = open_text_lines(folder / "x.txt", {.max_line_bytes = 100});
  Record line;
  ASSERT_TRUE(source->next(line));
  for (int i = 0; i < 2; ++i) {
    try {
      source->next(line);
      FAIL();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("x.txt line 2: longer than 100 bytes"));
    }
  }
}

TEST(TextLines, GoesToALineByNumber) {
  const TempDir folder;
  write_bytes(folder / "x.txt", "head\n0\n1\n2\n3\n");
  const auto source = open_text_lines(folder / "x.txt", {.skip_header_lines = 1});
  Record line;
  for (const int number : {3, 0, 2, 2}) {
    source->seek(static_cast<std::uint64_t>(number));
    ASSERT_TRUE(source->next(line));
    EXPECT_EQ(line.bytes, std::to_string(number));
  }
  EXPECT_THAT(source->where(3), HasSubstr("x.txt line 5"));
  source->seek(100);
  EXPECT_FALSE(source->next(line));
}

std::vector<std::string> rows_of(const RecordTable& table) {
  std::vector<std::string> rows;
  for (std::uint64_t i = 0; i < table.size(); ++i) rows.emplace_back(table.at(i).bytes);
  return rows;
}

TEST(TextLines, AreATableOnceTheyWereRead) {
  const TempDir folder;
  std::string text = "\xef\xbb\xbfhead\n";
  std::vector<std::string> expected;
  for (int i = 0; i < 100'000; ++i) {  // several blocks
    expected.push_back(std::string(static_cast<std::size_t>(i % 20), 'x') + std::to_string(i));
    text += expected.back() + (i % 3 == 0 ? "\r\n" : "\n");
  }
  write_bytes(folder / "x.txt", text);
  const auto source = open_text_lines(folder / "x.txt", {.skip_header_lines = 1});
  source->note_places(100'000);
  Record line;
  while (source->next(line)) {
  }
  const auto table = source->table();
  ASSERT_NE(table, nullptr);
  EXPECT_TRUE(table->is_current());
  EXPECT_EQ(rows_of(*table), expected);
}

TEST(TextLines, AreNoTableBeforeTheEndNorBeyondTheMostNorWithoutPlaces) {
  const TempDir folder;
  write_bytes(folder / "x.txt", "1\n2\n3\n");
  const auto table_after = [&](std::optional<std::uint64_t> most, int lines) {
    const auto source = open_text_lines(folder / "x.txt");
    if (most) source->note_places(*most);
    Record line;
    for (int i = 0; i < lines; ++i) source->next(line);
    return source->table();
  };
  EXPECT_NE(table_after(3, 4), nullptr);
  EXPECT_EQ(table_after(3, 3), nullptr);
  EXPECT_EQ(table_after(2, 4), nullptr);
  EXPECT_EQ(table_after(std::nullopt, 4), nullptr);
}

TEST(TextLines, AreNoTableOfACompressedFileNorOfOneThatChangesMeanwhile) {
  const TempDir folder;
  write_bytes(folder / "x.txt", "1\n2\n3\n");
  const auto source = open_text_lines(folder / "x.txt");
  source->note_places(10);
  Record line;
  while (source->next(line)) {
  }
  const auto before = source->table();
  ASSERT_NE(before, nullptr);
  write_bytes(folder / "y.txt", "1\n2\n3\n4\n");
  std::filesystem::rename(folder / "y.txt", folder / "x.txt");
  EXPECT_FALSE(before->is_current());
  EXPECT_THAT(rows_of(*before), ElementsAre("1", "2", "3"));
  EXPECT_EQ(source->table(), nullptr);

  const auto file = file_system_for(folder / "x.gz").create(folder / "x.gz");
  const auto compressor =
      compression_internal::make_compressor(*file, Compression::kGzip, std::nullopt);
  compressor->write("1\n2\n3\n");
  compressor->finish();
  file->close();
  const auto zipped = open_text_lines(folder / "x.gz");
  zipped->note_places(10);
  while (zipped->next(line)) {
  }
  EXPECT_EQ(zipped->position(), 3u);
  EXPECT_EQ(zipped->table(), nullptr);
}

TEST(TextLines, OfAMissingFileThrowNotFound) {
  const TempDir folder;
  EXPECT_THROW(open_text_lines(folder / "absent.txt"), NotFound);
}

}  // namespace
}  // namespace muster
