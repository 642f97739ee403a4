#include "muster/orchestration/jobs/job_log.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/supervisor.h"
#include "muster/testing/temp_dir.h"

namespace muster::jobs {
namespace {

using ::muster::testing::TempDir;
using ::muster::testing::write_bytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class Logs : public ::testing::Test {
 protected:
  Logs() { std::filesystem::create_directories(file("1", "master").parent_path()); }

  std::filesystem::path file(const std::string& attempt, const std::string& task) const {
    return dir_ / "job" / "attempts" / attempt / (task + ".log");
  }
  void append(const std::filesystem::path& path, const std::string& text) const {
    std::ofstream(path, std::ios::app) << text;
  }
  // Lines that a poll returns, as "task severity message".
  static std::vector<std::string> poll(JobLog& log, bool is_last = false) {
    std::vector<std::string> lines;
    log.poll(
        [&](const LogLine& line) {
          lines.push_back(fmt::format("{} {} {}", line.task, line.severity, line.message));
        },
        is_last);
    return lines;
  }

  TempDir dir_;
  const JobStore store_{dir_.path()};
};

TEST_F(Logs, AreMergedByTheTimesOfTheirLines) {
  append(file("1", "master"),
         "2026-03-01T10:00:00.100 I master:0 one\n2026-03-01T10:00:00.400 W master:0 four\n");
  append(file("1", "worker0"),
         "2026-03-01T10:00:00.200 E worker:0 two\n  with more\n2026-03-01T10:00:00.500 I five\n");
  append(dir_ / "job" / "service.log", "2026-03-01T10:00:00.000 I service started\n");
  JobLog log(store_, "job", std::nullopt);
  EXPECT_THAT(poll(log),
              ElementsAre("service INFO started", "master-replica-0 INFO one",
                          "worker-replica-0 ERROR two", "worker-replica-0 DEFAULT   with more",
                          "master-replica-0 WARNING four", "worker-replica-0 INFO five"));
  EXPECT_THAT(poll(log), IsEmpty());
}

TEST_F(Logs, AreFollowedLineByLineAndLateLinesAreNotDropped) {
  append(file("1", "ps1"), "2026-03-01T10:00:05.000 I ps:1 first\nhal");
  JobLog log(store_, "job", std::nullopt);
  EXPECT_THAT(poll(log), ElementsAre("ps-replica-1 INFO first"));
  append(file("1", "ps1"), "f\n");
  append(file("1", "evaluator"), "2026-03-01T10:00:01.000 I evaluator:0 late\nrest");
  EXPECT_THAT(poll(log), ElementsAre("evaluator-replica-0 INFO late", "ps-replica-1 DEFAULT half"));
  EXPECT_THAT(poll(log, /*is_last=*/true), ElementsAre("evaluator-replica-0 DEFAULT rest"));
}

TEST_F(Logs, OfAllAttemptsAreRead) {
  std::filesystem::create_directories(file("2", "master").parent_path());
  append(file("2", "master"), "2026-03-01T11:00:00.000 I master:0 again\n");
  append(file("1", "master"), "2026-03-01T10:00:00.000 I master:0 first\n");
  JobLog log(store_, "job", std::nullopt);
  EXPECT_THAT(poll(log), ElementsAre("master-replica-0 INFO first", "master-replica-0 INFO again"));
}

TEST_F(Logs, ThatArePipesOrLeadOutsideAreNotRead) {
  const TempDir outside;
  write_bytes(outside / "secret", "hidden\n");
  std::filesystem::create_symlink(outside / "secret", file("1", "master"));
  ASSERT_EQ(::mkfifo(file("1", "worker0").c_str(), 0600), 0);
  std::filesystem::create_directory_symlink(outside.path(), file("2", "x").parent_path());
  write_bytes(outside / "ps0.log", "hidden\n");
  append(file("1", "worker1"), "told\n");
  JobLog log(store_, "job", std::nullopt);
  std::vector<std::string> lines = poll(log);
  std::ranges::sort(lines);
  EXPECT_THAT(lines, ElementsAre(AllOf(StartsWith("master-replica-0 DEFAULT this log is not read"),
                                       HasSubstr("outside of"), Not(HasSubstr("hidden"))),
                                 StartsWith("ps-replica-0 DEFAULT this log is not read"),
                                 AllOf(StartsWith("worker-replica-0 "), HasSubstr("FIFO")),
                                 "worker-replica-1 DEFAULT told"));
  EXPECT_THAT(poll(log), IsEmpty());
}

TEST_F(Logs, OfOneTaskAlone) {
  append(file("1", "master"), "a\n");
  append(file("1", "worker1"), "b\n");
  JobLog log(store_, "job", task_name("worker:1"));
  EXPECT_THAT(poll(log), ElementsAre("worker-replica-1 DEFAULT b"));
}

TEST_F(Logs, ThatWereTrimmedBeginWithALineThatIsLeft) {
  std::string text;
  for (int i = 0; text.size() < 200'000; ++i) text += fmt::format("line {:06}\n", i);
  append(file("1", "master"), text);
  if (!trim_file(file("1", "master"), 20'000)) GTEST_SKIP() << "the file system has no holes";
  JobLog log(store_, "job", std::nullopt);
  const auto lines = poll(log);
  ASSERT_FALSE(lines.empty());
  EXPECT_LT(lines.size(), 3000U);
  EXPECT_EQ(lines.back(),
            fmt::format("master-replica-0 DEFAULT {}", text.substr(text.size() - 12, 11)));
  struct stat status {};
  ASSERT_EQ(::stat(file("1", "master").c_str(), &status), 0);
  EXPECT_EQ(static_cast<std::size_t>(status.st_size), text.size());
  EXPECT_LT(status.st_blocks * 512, 30'000);
}

TEST(LogLineText, HasGcloudsColumns) {
  const LogLine line{.severity = "INFO",
                     .time = Time(std::chrono::seconds(0)),
                     .task = "master-replica-0",
                     .message = "a\tb\x1b[0m"};
  const std::string text = to_text(line);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\t'), 5);
  EXPECT_EQ(text.substr(text.find("master")), "master-replica-0\t\ta\tb\\x1b[0m");
}

TEST(TaskName, IsReadAsPeopleWriteIt) {
  for (const char* word : {"worker:1", "worker-replica-1", "worker1"}) {
    EXPECT_EQ(task_name(word), "worker-replica-1") << word;
  }
  EXPECT_EQ(task_name("ps"), "ps-replica-0");
  EXPECT_EQ(task_name("service"), "service");
  for (const char* word : {"", "boss:1", "worker:x", "worker:-1"}) {
    EXPECT_THROW(task_name(word), InvalidArgument) << word;
  }
}

TEST_F(Logs, OfPodsHaveTheTimesOfTheCluster) {
  for (const char* pod : {"c-master-0-x", "c-worker-1-y"}) {
    std::filesystem::create_directories(dir_ / "job" / "attempts" / pod);
  }
  // The clock of a container may be in any time zone: its own times do not count.
  append(file("c-master-0-x", "master0"),
         "2026-03-01T10:00:02.000002001Z 1999-01-01T10:00:00.100 W master:0 three\n");
  append(file("c-worker-1-y", "worker1"),
         "2026-03-01T12:00:01.5+02:00 one\n2026-03-01T10:00:02.000Z two\n");
  JobLog log(store_, "job", std::nullopt);
  EXPECT_THAT(poll(log), ElementsAre("worker-replica-1 DEFAULT one", "worker-replica-1 DEFAULT two",
                                     "master-replica-0 WARNING three"));
}

TEST(KubectlStamp, IsATimeOfAnyZone) {
  const auto seconds = [](std::string_view line) {
    const auto stamp = kubectl_stamp(line);
    return stamp ? stamp->since_epoch.count() / 1e9 : -1;
  };
  EXPECT_DOUBLE_EQ(seconds("1970-01-01T00:00:01.5Z x"), 1.5);
  EXPECT_DOUBLE_EQ(seconds("1970-01-01T00:00:01Z x"), 1);
  EXPECT_DOUBLE_EQ(seconds("1970-01-01T02:00:01.500000000+02:00 x"), 1.5);
  EXPECT_EQ(kubectl_stamp("1970-01-01T00:00:01.123456789Z loss")->since_epoch.count(),
            1'123'456'789);
  EXPECT_EQ(kubectl_stamp("1970-01-01T00:00:01.123456789Z loss")->bytes, 31);
  for (const char* other : {"", "loss = 3", "1970-01-01T00:00:01.5 x", "1970-01-01T00:00:01.5Z",
                            "1970-01-01T00:00:0x.5Z x", "1970-01-01T00:00:01.5+0200 x"}) {
    EXPECT_FALSE(kubectl_stamp(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace muster::jobs
