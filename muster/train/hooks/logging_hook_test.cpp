#include "muster/train/hooks/logging_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeSession;
using testing::LogLines;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

LoggingOptions log_step() {
  LoggingOptions options;
  options.values["step"] = [](Session& session) { return LoggedValue(session.global_step()); };
  return options;
}

TEST(LoggingHook, LogsTheLossFirstThenOthersByNameAndTheTimeFromTheSecondLineOn) {
  FakeSession session;
  session.step_time = 256ms;
  session.loss_value = 0.6931471805599453;
  LoggingOptions options{.every_n_iter = 2, .clock = session.clock()};
  options.values["loss"] = [](Session& s) { return LoggedValue(s.loss()); };
  options.values["learning_rate"] = [](Session&) { return LoggedValue(0.1); };
  LoggingHook hook(options);
  const LogLines log;
  session.run(hook, 3);
  EXPECT_THAT(log.lines, ElementsAre("loss = 0.6931472, learning_rate = 0.1",
                                     "loss = 0.6931472, learning_rate = 0.1 (0.512 sec)"));
}

TEST(LoggingHook, CountsItsOwnIterationsNotTheGlobalStep) {
  FakeSession session;
  LoggingOptions options = log_step();
  options.every_n_iter = 3;
  options.clock = session.clock();
  LoggingHook hook(options);
  const LogLines log;
  for (int i = 0; i < 4; ++i) {
    session.step += 99;  // other workers
    session.run(hook);
  }
  EXPECT_THAT(log.lines, ElementsAre("step = 100", "step = 400 (0.000 sec)"));
}

TEST(LoggingHook, LogsBySeconds) {
  FakeSession session;
  session.step_time = 1s;
  LoggingOptions options = log_step();
  options.every_n_secs = 2s;
  options.clock = session.clock();
  LoggingHook hook(options);
  const LogLines log;
  session.run(hook, 4);
  EXPECT_THAT(log.lines, ElementsAre("step = 1", "step = 3 (2.000 sec)"));
}

TEST(LoggingHook, LogsOnlyAtTheEndIfTold) {
  FakeSession session;
  LoggingOptions options = log_step();
  options.at_end = true;
  LoggingHook hook(options);
  const LogLines log;
  hook.end(session);
  EXPECT_THAT(log.lines, SizeIs(0)) << "there was no step to tell of";
  session.run(hook, 7);
  hook.end(session);
  EXPECT_THAT(log.lines, ElementsAre("step = 7"));
}

TEST(LoggingHook, AFormatterMakesTheWholeLine) {
  FakeSession session;
  LoggingOptions options = log_step();
  options.every_n_iter = 1;
  options.formatter = [](const LoggedValues& values) {
    return fmt::format("at {}", std::get<std::int64_t>(values.at("step")));
  };
  LoggingHook hook(options);
  const LogLines log;
  session.run(hook, 2);
  EXPECT_THAT(log.lines, ElementsAre("at 1", "at 2"));
}

TEST(LoggingHook, AsksForValuesOnlyWhenALineIsDue) {
  FakeSession session;
  const HookPtr hook = make_loss_logging_hook(100);
  session.run(*hook, 100);
  EXPECT_EQ(session.loss_reads, 1);
}

TEST(LoggingHook, TheEstimatorsOwnLineHasLossAndStep) {
  FakeSession session;
  session.loss_value = 2.5;
  const HookPtr hook = make_loss_logging_hook(100);
  const LogLines log;
  session.run(*hook, 101);
  EXPECT_THAT(log.lines,
              ElementsAre("loss = 2.5, step = 1",
                          MatchesRegex(R"(loss = 2\.5, step = 101 \([0-9]+\.[0-9]{3} sec\))")));
}

TEST(LoggingHook, BeginsAnewInAnotherRun) {
  FakeSession session;
  const HookPtr hook = make_loss_logging_hook(100);
  const LogLines log;
  for (int run = 0; run < 2; ++run) {
    session.step = 0;
    hook->begin(session);
    session.run(*hook, 3);
  }
  EXPECT_THAT(log.lines, ElementsAre("loss = 0, step = 1", "loss = 0, step = 1"));
}

TEST(LoggingHook, RefusesOptionsThatCannotWork) {
  EXPECT_THROW(LoggingHook{log_step()}, InvalidArgument);
  EXPECT_THROW(LoggingHook({.every_n_iter = 1}), InvalidArgument);
  LoggingOptions both = log_step();
  both.every_n_iter = 1;
  both.every_n_secs = 1s;
  EXPECT_THROW(LoggingHook{both}, InvalidArgument);
  LoggingOptions empty{.every_n_iter = 1};
  empty.values["nothing"] = nullptr;
  EXPECT_THROW(LoggingHook{empty}, InvalidArgument);
}

}  // namespace
}  // namespace muster
