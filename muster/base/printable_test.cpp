#include "muster/base/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"

namespace muster {
namespace {

TEST(Printable, LeavesTextAlone) {
  for (const char* text : {"", "a 'b' \\ c\n\td", "Grüße, 世界 🙂", "\\x1b"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, SpellsOutWhatWouldActOnATerminal) {
  EXPECT_EQ(printable("\x1b[31mred\x1b[0m\r\x07"), "\\x1b[31mred\\x1b[0m\\x0d\\x07");
  EXPECT_EQ(printable("\u009b2J"), "\\xc2\\x9b2J");
  EXPECT_EQ(printable("a\u202Eb"), "a\\xe2\\x80\\xaeb");
  EXPECT_EQ(printable("\uFEFFname"), "\\xef\\xbb\\xbfname");
}

TEST(Printable, SpellsOutLineFeedsAndTabsWhereALineIsWanted) {
  EXPECT_EQ(printable_line("a\nb\tc\x1b"), "a\\x0ab\\x09c\\x1b");
  EXPECT_EQ(printable_line("Grüße, 世界 🙂"), "Grüße, 世界 🙂");
}

TEST(Printable, SpellsOutWhatIsNoCharacter) {
  EXPECT_EQ(printable({"a\0b", 3}), "a\\x00b");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80"), "\\xc0\\xaf\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Printable, IsWhatErrorsSay) {
  const std::string name("te\0n\x1b[2J", 8);
  DataLoss error("no tensor '{}'", name);
  error.add_context("reading " + name);
  EXPECT_STREQ(error.what(), "reading te\\x00n\\x1b[2J: no tensor 'te\\x00n\\x1b[2J'");
  EXPECT_EQ(error.message(), "no tensor 'te\\x00n\\x1b[2J'");
  const auto foreign = std::make_exception_ptr(std::runtime_error("bad \x1b[2J"));
  EXPECT_EQ(describe(foreign).message, "bad \\x1b[2J");
}

}  // namespace
}  // namespace muster
