#include "muster/base/log.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

/// Sends lines to a file for the length of a test, and puts everything back.
class LogTest : public ::testing::Test {
 protected:
  LogTest() { log::set_file(file_); }
  ~LogTest() override {
    log::set_file({});
    log::set_task("");
    log::set_level(log::Level::kInfo);
    log::set_sink({});
  }
  std::string text() const { return testing::read_bytes(file_); }

  testing::TempDir folder_;
  std::filesystem::path file_ = folder_ / "log";
};

TEST_F(LogTest, WritesTimeLevelTaskAndMessageOnOneLine) {
  log::set_task("worker:1");
  log::info("saved checkpoint step={}", 400);
  const std::regex line(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} I worker:1 saved checkpoint step=400\n)");
  EXPECT_TRUE(std::regex_match(text(), line)) << text();
}

TEST_F(LogTest, DropsLinesBelowTheLevel) {
  log::set_level(log::Level::kWarning);
  log::info("quiet");
  log::warning("loud");
  EXPECT_EQ(text().find("quiet"), std::string::npos);
  EXPECT_NE(text().find("W loud"), std::string::npos);
}

TEST_F(LogTest, KeepsLinesOfManyThreadsWhole) {
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 200; ++i) log::info("abcdefghijklmnopqrstuvwxyz");
      });
    }
  }
  std::size_t lines = 0;
  const std::string all = text();
  for (std::size_t at = 0; at < all.size(); ++lines) {
    const auto end = all.find('\n', at);
    EXPECT_TRUE(all.substr(at, end - at).ends_with(" I abcdefghijklmnopqrstuvwxyz"));
    at = end + 1;
  }
  EXPECT_EQ(lines, 800U);
}

TEST_F(LogTest, HandsLinesToTheSink) {
  std::string seen;
  log::set_sink([&](log::Level level, std::string_view line) {
    EXPECT_EQ(level, log::Level::kError);
    seen = line;
  });
  log::error("disk full");
  EXPECT_TRUE(seen.ends_with(" E disk full")) << seen;
}

TEST(ParseLevel, TakesTheSeedsWordsAndRefusesOthers) {
  EXPECT_EQ(log::parse_level("DEBUG"), log::Level::kDebug);
  EXPECT_EQ(log::parse_level("WARN"), log::Level::kWarning);
  EXPECT_EQ(log::parse_level("FATAL"), log::Level::kError);
  EXPECT_THROW(log::parse_level("chatty"), InvalidArgument);
}

}  // namespace
}  // namespace muster
