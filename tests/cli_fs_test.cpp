// muster fs over files of this machine and of an S3.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/testing/eventually.h"
#include "muster/testing/fake_s3.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/terminal.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using testing::FakeS3;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::read_bytes;
using testing::TempDir;
using testing::Words;
using testing::write_bytes;
using testing::operator+;

class CliFs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!MUSTER_HAS_STORES) GTEST_SKIP() << "built without libcurl or pugixml";
    std::filesystem::create_directories(folder_ / "tree/inner");
    write_bytes(folder_ / "tree/a", "aaa");
    write_bytes(folder_ / "tree/inner/b", std::string(12 << 20, 'b'));
  }

  Outcome fs(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "fs");
    return testing::run_program(MUSTER_PROGRAM, arguments, environment());
  }
  std::vector<std::string> environment() const {
    return {"AWS_ENDPOINT_URL=" + s3_.url(), "AWS_ACCESS_KEY_ID=id",
            "AWS_SECRET_ACCESS_KEY=the-secret"};
  }
  std::string out_of(const std::vector<std::string>& arguments) const {
    const Outcome outcome = fs(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }

  TempDir folder_;
  FakeS3 s3_;
};

TEST_F(CliFs, CopiesFoldersThereAndBack) {
  EXPECT_EQ(out_of({"cp", "-r", folder_ / "tree", "s3://bucket/copy"}),
            "2 files, 12582915 bytes, 0 were there already\n");
  EXPECT_EQ(s3_.bytes_of("bucket/copy/a"), "aaa");
  EXPECT_EQ(out_of({"ls", "s3://bucket/copy"}), "a\ninner\n");
  EXPECT_EQ(out_of({"cat", "s3://bucket/copy/[a-c]"}), "aaa");
  EXPECT_THAT(out_of({"du", "s3://bucket/copy"}), HasSubstr("12582915         2 files"));
  out_of({"cp", "-r", "s3://bucket/copy", folder_ / "back"});
  EXPECT_EQ(read_bytes(folder_ / "back/a"), "aaa");
  EXPECT_EQ(read_bytes(folder_ / "back/inner/b"), read_bytes(folder_ / "tree/inner/b"));
  EXPECT_EQ(s3_.open_uploads(), 0U);
}

TEST_F(CliFs, SkipsWhatAnEarlierCopyHasFinished) {
  s3_.set_bytes("bucket/x/a", "aaa");
  s3_.set_bytes("bucket/x/b", "bbb");
  out_of({"cp", "s3://bucket/x/a", folder_ / "x/"});
  EXPECT_EQ(out_of({"cp", "-r", "--resume", "s3://bucket/x", folder_.path()}),
            "2 files, 6 bytes, 1 were there already\n");
  EXPECT_EQ(read_bytes(folder_ / "x/b"), "bbb");
}

TEST_F(CliFs, ResumesACopyThatWasKilled) {
  std::filesystem::create_directories(folder_ / "many");
  for (int i = 0; i < 20; ++i) {
    const auto file = folder_ / fmt::format("many/{:02}", i);
    write_bytes(file, std::string(1000 + i, 'x'));
    // Older than what the fake has.
    std::filesystem::last_write_time(
        file, std::chrono::file_clock::from_sys(
                  std::chrono::sys_seconds(std::chrono::seconds(1'600'000'000))));
  }
  const auto copied = [&] { return s3_.objects().size(); };
  // From the tenth on, none is answered before the kill.
  std::atomic<bool> is_killed{false};
  s3_.set_fault([&](const testing::HttpCall& call) -> std::optional<testing::CannedResponse> {
    if (call.method != "PUT" || copied() < 10 || is_killed) return std::nullopt;
    return testing::CannedResponse{.delay = std::chrono::milliseconds(50), .hang_up = true};
  });
  const std::vector<std::string> flags{
      "cp", "-r", "--resume", "--parallel", "2", folder_ / "many", "s3://bucket/"};
  {
    testing::RunningProgram program(MUSTER_PROGRAM, std::vector<std::string>{"fs"} + flags,
                                    {.environment = environment()});
    ASSERT_TRUE(testing::eventually([&] { return copied() >= 10 || program.ended(); }));
    ASSERT_FALSE(program.ended()) << program.err();
    program.send(SIGKILL);
    program.wait();
  }
  is_killed = true;
  const std::size_t done = copied();
  EXPECT_LT(done, 20U);
  EXPECT_EQ(out_of(flags), fmt::format("20 files, 20190 bytes, {} were there already\n", done));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(s3_.bytes_of(fmt::format("bucket/many/{:02}", i)), std::string(1000 + i, 'x'));
  }
}

TEST_F(CliFs, ShowsOnATerminalHowFarALargeFileIs) {
  const std::string large = folder_ / "tree/inner/b";
  const std::string out =
      testing::run_on_terminal(MUSTER_PROGRAM, {"fs", "cp", large, "s3://bucket/"}, environment());
  // The first of three pieces; then the line is cleared for the result.
  EXPECT_THAT(out, HasSubstr("copying: 4.19 million B, 33 %, "));
  EXPECT_THAT(out, HasSubstr("\r\x1b[K1 files, 12582912 bytes, 0 were there already"));
  EXPECT_EQ(fs({"cp", large, "s3://bucket/"}).err, "") << "elsewhere nothing is drawn";
}

// Names of objects in a bucket must not decide where on this host files are written.
TEST_F(CliFs, CopiesNothingOutOfItsTarget) {
  s3_.set_bytes("bucket/d/good", "good");
  for (const char* key :
       {"d/../../../../escaped", "d/inner/../../../../../escaped", "d//escaped"}) {
    s3_.set_bytes("bucket/" + std::string(key), "attack");
    const std::string target = folder_ / "a/b/c/target";
    for (const Words& arguments : {Words{"cp", "-r"}, Words{"mv"}}) {
      const Outcome outcome = fs(arguments + Words{"s3://bucket/d", target});
      EXPECT_EQ(outcome.status, 1) << key;
      EXPECT_THAT(outcome.err, HasSubstr("can be no name of a file or folder")) << key;
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "a")) << "not even what is good: " << key;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "escaped"));
    out_of({"rm", "s3://bucket/" + std::string(key)});
  }
  EXPECT_EQ(fs({"cp", "s3://bucket/d/..", folder_.path().string() + "/"}).status, 1);
  out_of({"cp", "-r", "s3://bucket/d", folder_ / "target"});
  EXPECT_EQ(read_bytes(folder_ / "target/good"), "good");
}

TEST_F(CliFs, SpellsOutNamesThatWouldActOnATerminal) {
  s3_.set_bytes("bucket/d/a\x1b[2J\nb\xff", "x");
  EXPECT_EQ(out_of({"ls", "s3://bucket/d"}), "a\\x1b[2J\\x0ab\\xff\n");
  EXPECT_THAT(out_of({"ls", "-l", "s3://bucket/d"}), HasSubstr("  a\\x1b[2J\\x0ab\\xff\n"));
  EXPECT_THAT(out_of({"stat", "s3://bucket/d/*"}), HasSubstr("d/a\\x1b[2J\\x0ab\\xff\n"));
  EXPECT_THAT(out_of({"du", "s3://bucket/d/*"}), HasSubstr("d/a\\x1b[2J\\x0ab\\xff\n"));
  EXPECT_THAT(out_of({"ls", "--json", "s3://bucket/d"}),
              HasSubstr("\"s3://bucket/d/a\\u001b[2J\\nb\xEF\xBF\xBD\""));
}

TEST_F(CliFs, CopiesWhatIsInTheCurrentFolder) {
  testing::run_program(
      "/bin/sh",
      {"-c", "cd '" + folder_.path().string() + "/tree' && exec \"$0\" fs cp -r . s3://bucket/x/",
       MUSTER_PROGRAM},
      environment());
  EXPECT_EQ(out_of({"ls", "s3://bucket/x"}), "a\ninner\n");
}

TEST_F(CliFs, MovesAndRemoves) {
  out_of({"mv", folder_ / "tree", "s3://bucket/moved"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tree"));
  out_of({"mv", "s3://bucket/moved/a", "s3://bucket/moved/z"});
  EXPECT_EQ(out_of({"ls", "s3://bucket/moved"}), "inner\nz\n");
  EXPECT_THAT(fs({"rm", "s3://bucket/moved"}).err, HasSubstr("is a folder: give --recursive"));
  out_of({"rm", "-r", "s3://bucket/moved"});
  EXPECT_TRUE(s3_.objects().empty());
}

TEST_F(CliFs, SaysWhatIsNotThere) {
  const Outcome outcome = fs({"ls", "s3://bucket/none"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("s3://bucket/none: no such file or folder"));
  EXPECT_THAT(fs({"cp", folder_ / "tree", "s3://bucket/x"}).err, HasSubstr("give --recursive"));
  s3_.set_fault([](const testing::HttpCall& call) {
    const bool is_head = call.method == "HEAD";
    return testing::CannedResponse{
        .status = 404, .body = is_head ? "" : "<Error><Code>NoSuchBucket</Code></Error>"};
  });
  for (const char* path : {"s3://nowhere", "s3://nowhere/x", "s3://nowhere/*"}) {
    const Outcome missing = fs({"ls", path});
    EXPECT_EQ(missing.status, 1) << path;
    EXPECT_THAT(missing.err, HasSubstr("there is no bucket s3://nowhere")) << path;
  }
  s3_.set_fault({});
  EXPECT_EQ(fs({"cp", folder_ / "tree"}).status, 2);
}

}  // namespace
}  // namespace muster
