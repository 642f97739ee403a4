#include "muster/train/hooks/saver_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "muster/base/error.h"
#include "muster/platform/cluster/trial_pause.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeSession;

/// Writes down what it is told.
class Diary : public CheckpointSaverListener {
 public:
  void begin(Session&) override { entries.push_back("begin"); }
  void before_save(Session&, std::int64_t step) override { note("before", step); }
  bool after_save(Session&, std::int64_t step) override {
    note("after", step);
    return step >= stop_at;
  }
  void end(Session&, std::int64_t step) override { note("end", step); }

  std::vector<std::string> entries;
  std::int64_t stop_at = 1000;

 private:
  void note(const char* what, std::int64_t step) {
    entries.push_back(fmt::format("{} {}", what, step));
  }
};

void start(Hook& hook, FakeSession& session) {
  hook.begin(session);
  hook.after_create_session(session);
}

TEST(CheckpointSaverHook, SavesAtCreationByStepsAndAtTheEnd) {
  FakeSession session;
  CheckpointSaverHook hook({.save_steps = 4});
  start(hook, session);
  session.run(hook, 10);
  hook.end(session);
  EXPECT_THAT(session.saved_steps, ElementsAre(0, 4, 8, 10));
}

TEST(CheckpointSaverHook, LeavesOutTheFirstCheckpointOfATrialThatPauses) {
  FakeSession session;
  CheckpointSaverHook hook({.save_steps = 4});
  ::setenv(kTrialPausesVariable, "1", 1);
  start(hook, session);
  session.run(hook, 6);
  hook.end(session);
  ::unsetenv(kTrialPausesVariable);
  EXPECT_THAT(session.saved_steps, ElementsAre(4, 6));
}

TEST(CheckpointSaverHook, SaysThatItIsThere) {
  const testing::LogLines log;
  const CheckpointSaverHook hook({.save_steps = 4});
  EXPECT_THAT(log.lines, ElementsAre("Create CheckpointSaverHook."));
}

TEST(CheckpointSaverHook, SavesBySeconds) {
  FakeSession session;
  session.step_time = 1s;
  CheckpointSaverHook hook({.save_secs = 3s, .clock = session.clock()});
  start(hook, session);
  session.run(hook, 7);
  EXPECT_THAT(session.saved_steps, ElementsAre(0, 3, 6));
}

TEST(CheckpointSaverHook, DoesNotSaveTheLastStepTwice) {
  FakeSession session;
  CheckpointSaverHook hook({.save_steps = 5});
  start(hook, session);
  session.run(hook, 5);
  hook.end(session);
  EXPECT_THAT(session.saved_steps, ElementsAre(0, 5));
}

TEST(CheckpointSaverHook, SavesAgainAfterARollBackAndCountsFromThere) {
  FakeSession session;
  CheckpointSaverHook hook({.save_steps = 10});
  start(hook, session);
  session.run(hook, 25);
  session.step = 3;
  hook.after_create_session(session);
  session.run(hook, 10);
  EXPECT_THAT(session.saved_steps, ElementsAre(0, 10, 20, 3, 13));
}

TEST(CheckpointSaverHook, TellsItsListenersFromBeginToEnd) {
  FakeSession session;
  const auto diary = std::make_shared<Diary>();
  CheckpointSaverHook hook({.save_steps = 2, .listeners = {diary}});
  start(hook, session);
  session.run(hook, 3);
  hook.end(session);
  EXPECT_THAT(diary->entries, ElementsAre("begin", "before 0", "after 0", "before 2", "after 2",
                                          "before 3", "after 3", "end 3"));
}

TEST(CheckpointSaverHook, ListenersThatJoinBeforeTheRunAreToldToo) {
  FakeSession session;
  const auto first = std::make_shared<Diary>();
  const auto second = std::make_shared<Diary>();
  CheckpointSaverHook hook({.save_steps = 2, .listeners = {first}});
  hook.set_run_listeners({second});
  second->stop_at = 2;
  start(hook, session);
  session.run(hook, 2);
  EXPECT_EQ(first->entries, second->entries);
  EXPECT_TRUE(session.stop_requested());
}

TEST(CheckpointSaverHook, OfSeveralRunsTellsEachOneOnlyItsOwnListenersAndEachOfThemOnce) {
  const auto own = std::make_shared<Diary>();
  const auto first = std::make_shared<Diary>();
  const auto second = std::make_shared<Diary>();
  CheckpointSaverHook hook({.save_steps = 5, .listeners = {own}});
  const auto run = [&](const SavingListeners& listeners) {
    FakeSession session;
    hook.set_run_listeners(listeners);
    start(hook, session);
    session.run(hook, 1);
    hook.end(session);
  };
  run({first});
  run({second});
  run({second});
  EXPECT_THAT(first->entries,
              ElementsAre("begin", "before 0", "after 0", "before 1", "after 1", "end 1"));
  EXPECT_EQ(second->entries.size(), 2 * first->entries.size());
  EXPECT_EQ(own->entries.size(), 3 * first->entries.size());
}

TEST(CheckpointSaverHook, MarksEachCheckpointInTheEventFile) {
  FakeSession session;
  CheckpointSaverHook hook({.save_steps = 2});
  start(hook, session);
  session.run(hook, 2);
  const auto events = session.written_events();
  ASSERT_EQ(events.size(), 2U);
  const auto mark = std::get<SessionMark>(events[1].what);
  EXPECT_EQ(events[1].step, 2);
  EXPECT_EQ(mark.status, SessionMark::Status::kCheckpoint);
  EXPECT_EQ(mark.checkpoint_path, (session.config().model_dir / "model.ckpt-2").string());
}

TEST(CheckpointSaverHook, RefusesAPeriodThatIsNoneAndANullListener) {
  EXPECT_THROW(CheckpointSaverHook({}), InvalidArgument);
  EXPECT_THROW(CheckpointSaverHook({.save_steps = 1, .save_secs = 1s}), InvalidArgument);
  EXPECT_THROW(CheckpointSaverHook({.save_steps = 1, .listeners = {nullptr}}), InvalidArgument);
}

}  // namespace
}  // namespace muster
