#include "muster/base/wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

/// Collects the log lines of a test and sets a short stall time.
class WaitTest : public ::testing::Test {
 public:
  ~WaitTest() override {
    log::set_sink({});
    log::set_task("");
    set_stall_after(30s);
  }

 protected:
  WaitTest() {
    log::set_sink([this](log::Level, std::string_view line) {
      std::lock_guard lock(lines_mutex_);
      lines_.emplace_back(line);
      seen_.notify_all();
    });
  }

  std::string first_line() {
    std::unique_lock lock(lines_mutex_);
    EXPECT_TRUE(seen_.wait_for(lock, 60s, [this] { return !lines_.empty(); }));
    return lines_.empty() ? "" : lines_.front();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mutex lines_mutex_;
  std::condition_variable seen_;
  std::vector<std::string> lines_;
};

TEST_F(WaitTest, ThrowsDeadlineExceededWithTheReason) {
  std::unique_lock lock(mutex_);
  try {
    wait(
        changed_, lock, Deadline::after(5ms), [] { return "ps:0 at h:1: pull step=120"; },
        [] { return false; });
    FAIL() << "the wait ended";
  } catch (const DeadlineExceeded& error) {
    const std::regex expected(R"(waited \d+\.\d s for ps:0 at h:1: pull step=120)");
    EXPECT_TRUE(std::regex_match(error.what(), expected)) << error.what();
  }
}

TEST_F(WaitTest, EndsWhenThePredicateHolds) {
  bool ready = false;
  std::jthread other([&] {
    std::lock_guard lock(mutex_);
    ready = true;
    changed_.notify_one();
  });
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(wait_until(
      changed_, lock, Deadline::never(), [] { return ""; }, [&] { return ready; }));
}

TEST_F(WaitTest, DoesNotAskForTheReasonOfAWaitThatIsShort) {
  std::unique_lock lock(mutex_);
  wait(
      changed_, lock, Deadline::never(), []() -> std::string { throw Internal("asked"); },
      [] { return true; });
}

TEST_F(WaitTest, LogsAStallWithItsTaskAndReason) {
  log::set_task("worker:1");
  set_stall_after(1ms);
  bool ready = false;
  std::jthread other([&] {
    const std::string line = first_line();
    const std::regex expected(R"(.* W worker:1 waits \d+\.\d s for ps:0 at h:1: pull step=120)");
    EXPECT_TRUE(std::regex_match(line, expected)) << line;
    std::lock_guard lock(mutex_);
    ready = true;
    changed_.notify_one();
  });
  std::unique_lock lock(mutex_);
  wait(
      changed_, lock, Deadline::never(), [] { return "ps:0 at h:1: pull step=120"; },
      [&] { return ready; });
}

TEST_F(WaitTest, WatchdogLogsARegionBlockedInForeignCode) {
  set_stall_after(1ms);
  const BlockingRegion region([] { return "an answer of the file server"; });
  EXPECT_NE(first_line().find("for an answer of the file server"), std::string::npos);
}

TEST_F(WaitTest, WatchdogLogsARegionThatIsDueBeforeAnOlderOne) {
  set_stall_after(1ms);
  auto short_one = std::make_unique<BlockingRegion>([] { return "an answer"; });
  set_stall_after(1h);
  const BlockingRegion older([] { return "the older one"; });
  // Its report shows that the watchdog has looked at both and sleeps for the older one.
  first_line();
  short_one.reset();
  set_stall_after(1ms);
  const BlockingRegion newer([] { return "the newer one"; });
  std::unique_lock lock(lines_mutex_);
  EXPECT_TRUE(seen_.wait_for(
      lock, 60s, [this] { return lines_.back().find("for the newer one") != std::string::npos; }));
}

TEST(Deadline, SaturatesInsteadOfOverflowing) {
  EXPECT_TRUE(Deadline::after(Deadline::Clock::duration::max()).is_never());
  EXPECT_FALSE(Deadline::never().expired());
  EXPECT_TRUE(Deadline::after(-1s).expired());
  EXPECT_EQ(Deadline::after(-1s).remaining(), Deadline::Clock::duration::zero());
}

TEST(Nap, LastsItsTimeUnlessAStopIsAskedFor) {
  const auto begin = Deadline::Clock::now();
  EXPECT_TRUE(nap({}, std::chrono::milliseconds(20)));
  EXPECT_GE(Deadline::Clock::now() - begin, std::chrono::milliseconds(20));
  std::stop_source source;
  const std::jthread stopping([&] { source.request_stop(); });
  EXPECT_FALSE(nap(source.get_token(), std::chrono::hours(1)));
  EXPECT_FALSE(nap(source.get_token(), std::chrono::hours(1)));
}

}  // namespace
}  // namespace muster
