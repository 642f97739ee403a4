#include "muster/data/records/line_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_bytes;

std::string line_of(LineFile& file) {
  Record line;
  return file.next(line) ? std::string(line.bytes) : "(end)";
}

TEST(LineFile, GoesToEveryLineByTheOffsetThatItTold) {
  const TempDir folder;
  // A byte order mark, both ends of lines, empty lines, and more than a block of them.
  std::string text = "\xEF\xBB\xBF";
  for (int i = 0; i < 30'000; ++i) {
    text += std::string(static_cast<std::size_t>(i % 23), 'x') + (i % 3 == 0 ? "\r\n" : "\n");
  }
  text += "last";
  write_bytes(folder / "x.txt", text);
  const auto file = open_line_file(folder / "x.txt");
  std::vector<std::uint64_t> offsets;
  std::vector<std::string> lines;
  for (Record line;;) {
    offsets.push_back(*file->offset());
    if (!file->next(line)) break;
    lines.emplace_back(line.bytes);
  }
  ASSERT_EQ(lines.size(), 30'001u);
  EXPECT_EQ(offsets.back(), text.size());
  for (const std::size_t number : {30'000u, 1u, 17u, 12'345u, 29'999u, 0u}) {
    const auto other = open_line_file(folder / "x.txt");
    other->seek(number, offsets[number]);
    EXPECT_EQ(other->position(), number);
    EXPECT_EQ(line_of(*other), lines[number]) << number;
    file->seek(number, offsets[number]);
    file->seek(number + (number < 30'000 ? 1 : 0));
    EXPECT_EQ(line_of(*file), lines[std::min<std::size_t>(number + 1, 30'000)]) << number;
  }
  // By number alone it still goes back to lines before the one that it was sent to.
  file->seek(20'000, offsets[20'000]);
  file->seek(3);
  EXPECT_EQ(line_of(*file), "xxx");
}

TEST(LineFile, NamesTheLineThatItWasSentTo) {
  const TempDir folder;
  write_bytes(folder / "x.txt", "one\ntwo\nthree\n");
  const auto file = open_line_file(folder / "x.txt");
  file->seek(2, 8);
  EXPECT_EQ(line_of(*file), "three");
  EXPECT_THAT(file->where(2), HasSubstr("x.txt line 3"));
  EXPECT_EQ(line_of(*file), "(end)");
}

TEST(LineFile, RefusesAnOffsetWhereNoLineBegins) {
  const TempDir folder;
  write_bytes(folder / "x.txt", "one\ntwo\n");
  const auto file = open_line_file(folder / "x.txt");
  EXPECT_THROW(file->seek(1, 5), DataLoss);
  EXPECT_THROW(file->seek(1, 80), DataLoss);
}

TEST(LineFile, HasNoOffsetsWhereItIsCompressed) {
  const TempDir folder;
  const std::string path = (folder / "x.gz").string();
  const gzFile made = ::gzopen(path.c_str(), "wb");
  ::gzputs(made, "one\ntwo\n");
  ::gzclose(made);
  const auto file = open_line_file(path);
  EXPECT_EQ(file->offset(), std::nullopt);
  EXPECT_EQ(line_of(*file), "one");
  EXPECT_THROW(file->seek(1, 4), FailedPrecondition);
}

}  // namespace
}  // namespace muster
