#include "muster/train/estimator/early_stopping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FakeSession;
using testing::flip_byte;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogLines;

using Values = std::vector<std::pair<std::int64_t, double>>;

/// Writes evaluations of `metric` as an estimator does; the file's path.
Path write_evaluations(const Path& folder, const std::string& metric, const Values& values) {
  EventWriter writer(folder);
  for (const auto& [step, value] : values) {
    writer.add({{.tag = "loss", .data = 1.0F}, {.tag = metric, .data = static_cast<float>(value)}},
               step);
  }
  return writer.path();
}

/// Whether the hook stops a run whose evaluations were these.
bool stops(const HookPtr& hook, const Values& values) {
  FakeSession session;
  write_evaluations(session.config().model_dir / "eval", "auc", values);
  session.run(*hook);
  return session.stop_requested();
}

TEST(EarlyStopping, StopsIfHigherThanTheThresholdAndNotAtIt) {
  EXPECT_FALSE(stops(stop_if_higher("auc", 0.5), {{100, 0.25}, {200, 0.5}}));
  EXPECT_TRUE(stops(stop_if_higher("auc", 0.5), {{100, 0.25}, {200, 0.75}, {300, 0.25}}));
}

TEST(EarlyStopping, StopsIfLowerThanTheThresholdAndNotAtIt) {
  EXPECT_FALSE(stops(stop_if_lower("auc", 0.5), {{100, 0.75}, {200, 0.5}}));
  EXPECT_TRUE(stops(stop_if_lower("auc", 0.5), {{100, 0.25}}));
}

TEST(EarlyStopping, StopsWhenTheBestIsTooManyStepsBehind) {
  const Values rising{{100, 1}, {200, 2}, {300, 3}};
  EXPECT_FALSE(stops(stop_if_no_increase("auc", 150), rising));
  EXPECT_TRUE(stops(stop_if_no_decrease("auc", 150), rising));
  const Values falling{{100, 3}, {200, 2}, {300, 1}};
  EXPECT_TRUE(stops(stop_if_no_increase("auc", 150), falling));
  EXPECT_FALSE(stops(stop_if_no_decrease("auc", 150), falling));
}

TEST(EarlyStopping, ReachingTheLimitIsEnoughAndEqualIsNoImprovement) {
  const Values flat{{100, 2}, {200, 2}, {300, 2}};
  EXPECT_TRUE(stops(stop_if_no_increase("auc", 200), flat));
  EXPECT_FALSE(stops(stop_if_no_increase("auc", 201), flat));
  EXPECT_TRUE(stops(stop_if_no_decrease("auc", 200), flat));
}

TEST(EarlyStopping, EvaluationsBeforeMinStepsDoNotCount) {
  EXPECT_FALSE(stops(stop_if_higher("auc", 0.5, {.min_steps = 101}), {{100, 0.75}}));
  EXPECT_TRUE(stops(stop_if_higher("auc", 0.5, {.min_steps = 100}), {{100, 0.75}}));
  EXPECT_FALSE(stops(stop_if_no_increase("auc", 100, {.min_steps = 150}),
                     {{100, 9}, {150, 1}, {200, 1}, {240, 1}}));
}

TEST(EarlyStopping, TheOrderOfStepsCountsNotThatOfTheFiles) {
  FakeSession session;
  const Path eval_dir = session.config().model_dir / "eval";
  write_evaluations(eval_dir, "auc", {{300, 3}});
  write_evaluations(eval_dir, "auc", {{100, 1}, {200, 2}});
  session.run(*stop_if_no_increase("auc", 150));
  EXPECT_FALSE(session.stop_requested());
}

TEST(EarlyStopping, ReadsAnotherFolderIfTold) {
  FakeSession session;
  const Path eval_dir = session.config().model_dir / "eval_census";
  write_evaluations(eval_dir, "auc", {{100, 0.75}});
  session.run(*stop_if_higher("auc", 0.5));
  EXPECT_FALSE(session.stop_requested()) << "there is no folder eval yet, so nothing to judge";
  session.run(*stop_if_higher("auc", 0.5, {.eval_dir = eval_dir}));
  EXPECT_TRUE(session.stop_requested());
}

TEST(EarlyStopping, LogsTheDecisionWithItsReason) {
  FakeSession session;
  write_evaluations(session.config().model_dir / "eval", "auc", {{100, 0.75}});
  session.step = 149;
  const HookPtr hook = stop_if_higher("auc", 0.5);
  const LogLines log;
  session.run(*hook);
  const std::string reason = "at step 100, metric auc is 0.75, higher than the threshold 0.5";
  EXPECT_THAT(log.lines, ElementsAre("Requesting early stopping at global step 150: " + reason));
  EXPECT_THAT(session.stop_reasons, ElementsAre("early stopping: " + reason));
}

TEST(EarlyStopping, NamesTheMetricsThereAreWhenTheNameIsWrong) {
  FakeSession session;
  write_evaluations(session.config().model_dir / "eval", "auc", {{100, 0.75}});
  const HookPtr hook = stop_if_higher("acuracy", 0.5);
  try {
    session.run(*hook);
    FAIL() << "the metric was found";
  } catch (const NotFound& error) {
    EXPECT_THAT(error.what(), HasSubstr("has the metric acuracy; they have: auc, loss"));
  }
}

TEST(EarlyStopping, DamageInAnEventFileIsWarnedOfAndEndsNothing) {
  FakeSession session;
  const Path eval_dir = session.config().model_dir / "eval";
  const Path damaged = write_evaluations(eval_dir, "auc", {{100, 0.25}, {200, 0.75}});
  flip_byte(damaged, std::filesystem::file_size(damaged) - 6);
  const LogLines log;
  session.run(*stop_if_higher("auc", 0.5));
  EXPECT_FALSE(session.stop_requested()) << "the second evaluation cannot be read";
  EXPECT_THAT(log.lines, Contains(HasSubstr(damaged.string())));
}

TEST(EarlyStopping, AsksEveryMinuteUnlessTold) {
  FakeSession session;
  session.step_time = 20s;
  int asked = 0;
  const ShouldStopFn count = [&](Session&) -> std::optional<std::string> {
    ++asked;
    return std::nullopt;
  };
  const HookPtr hook = make_early_stopping_hook(count, {.clock = session.clock()});
  session.run(*hook, 7);
  EXPECT_EQ(asked, 3);
  asked = 0;
  const HookPtr by_steps = make_early_stopping_hook(count, {.run_every_steps = 5});
  session.run(*by_steps, 11);
  EXPECT_EQ(asked, 3);
}

TEST(EarlyStopping, OnlyTheChiefDecides) {
  FakeSession session;
  session.mutable_config().cluster.task.is_chief = false;
  const HookPtr hook = make_early_stopping_hook([](Session&) { return std::string("now"); });
  session.run(*hook);
  EXPECT_THAT(session.stop_reasons, IsEmpty());
}

TEST(EarlyStopping, RefusesOptionsThatCannotWork) {
  const ShouldStopFn never = [](Session&) { return std::nullopt; };
  EXPECT_THROW(make_early_stopping_hook(nullptr), InvalidArgument);
  EXPECT_THROW(make_early_stopping_hook(never, {.run_every_secs = 1s, .run_every_steps = 1}),
               InvalidArgument);
  EXPECT_THROW(stop_if_no_increase("auc", 0), InvalidArgument);
  EXPECT_THROW(stop_if_higher("auc", 0, {.period = {.run_every_steps = 0}}), InvalidArgument);
}

}  // namespace
}  // namespace muster
