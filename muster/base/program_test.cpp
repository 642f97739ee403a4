#include "muster/base/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <stdexcept>
#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/testing/forked.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

/// The status and what was logged on the way.
std::pair<int, std::string> outcome_of(const std::function<int()>& body) {
  std::string lines;
  log::set_sink([&lines](log::Level, std::string_view line) { lines.append(line).append("\n"); });
  const int status = run_main(body);
  log::set_sink({});
  return {status, lines};
}

TEST(RunMain, ReturnsTheStatusOfTheBody) {
  EXPECT_EQ(outcome_of([] { return 0; }).first, 0);
  EXPECT_EQ(outcome_of([] { return 7; }).first, 7);
}

TEST(RunMain, LogsAFailureAndReturnsItsExitStatus) {
  const auto [status, lines] = outcome_of([]() -> int { throw NotFound("no such file: x"); });
  EXPECT_EQ(status, 1);
  EXPECT_THAT(lines, HasSubstr(" E "));
  EXPECT_THAT(lines, HasSubstr("no such file: x"));
  EXPECT_EQ(outcome_of([]() -> int { throw UsageError("--seed"); }).first, 2);
  EXPECT_EQ(outcome_of([]() -> int { throw Unavailable("ps:0"); }).first, 75);
  EXPECT_EQ(outcome_of([]() -> int { throw std::runtime_error("odd"); }).first, 1);
}

TEST(RunMain, WhoeverStartsItMayNameTheStatusThatIsWorthAnotherTry) {
  const auto gone = []() -> int { throw Unavailable("ps:0"); };
  ::setenv("MUSTER_RETRY_STATUS", "143", 1);
  EXPECT_EQ(outcome_of(gone).first, 143);
  EXPECT_EQ(outcome_of([]() -> int { throw NotFound("x"); }).first, 1);
  ::setenv("MUSTER_RETRY_STATUS", "256", 1);
  const auto [status, lines] = outcome_of([] { return 0; });
  ::unsetenv("MUSTER_RETRY_STATUS");
  EXPECT_EQ(status, 2);
  EXPECT_THAT(lines, HasSubstr("MUSTER_RETRY_STATUS is an exit status from 1 to 255: \"256\""));
  EXPECT_EQ(outcome_of(gone).first, 75);
}

TEST(RunMain, AProgramWithoutArgumentsRefusesSome) {
  const auto status_with = [](std::vector<std::string> words) {
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return outcome_of(
        [&] { return run_main(static_cast<int>(words.size()), argv.data(), [] { return 7; }); });
  };
  EXPECT_EQ(status_with({"own_model"}).first, 7);
  EXPECT_EQ(status_with({"own_model", "--help"}).first, 0);
  const auto [status, lines] = status_with({"own_model", "--steps=3"});
  EXPECT_EQ(status, 2);
  EXPECT_THAT(lines, HasSubstr("unknown argument --steps=3"));
}

TEST(RunMain, AnOrderlyStopIsNoErrorInTheLog) {
  const auto [status, lines] =
      outcome_of([]() -> int { throw Interrupted(SIGTERM, "stopped by signal 15"); });
  EXPECT_EQ(status, 143);
  EXPECT_THAT(lines, HasSubstr(" I "));
}

TEST(RunMain, AFileBeyondTheLimitOfTheProcessIsAFailureAndNotTheEnd) {
  const testing::TempDir dir;
  testing::Forked program([&](const auto&) {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return run_main([&] {
      write_file_atomically(dir / "file", std::string(5000, 'x'));
      return 0;
    });
  });
  EXPECT_EQ(program.wait(), 1);
}

}  // namespace
}  // namespace muster
