#include "muster/train/hooks/saver_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <set>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeSession;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

/// All values of the event file by tag; of a tag that was written twice the last one.
std::map<std::string, SummaryValue> values_by_tag(FakeSession& session) {
  std::map<std::string, SummaryValue> values;
  for (const Event& event : session.written_events()) {
    if (const auto* summary = std::get_if<Summary>(&event.what)) {
      for (const SummaryValue& value : *summary) values[value.tag] = value;
    }
  }
  return values;
}

std::map<std::string, double> scalars_by_tag(FakeSession& session) {
  std::map<std::string, double> scalars;
  for (const auto& [tag, value] : values_by_tag(session)) {
    if (const auto number = scalar_of(value)) scalars[tag] = *number;
  }
  return scalars;
}

std::set<std::int64_t> summary_steps(FakeSession& session) {
  std::set<std::int64_t> steps;
  for (const Event& event : session.written_events()) {
    if (std::holds_alternative<Summary>(event.what)) steps.insert(event.step);
  }
  return steps;
}

TEST(SummarySaverHook, WritesTheFirstStepAndThenByItsPeriod) {
  FakeSession session;
  session.step = 40;
  SummarySaverHook hook({.save_steps = 3});
  session.run(hook, 8);
  EXPECT_THAT(summary_steps(session), ElementsAre(41, 44, 47));
}

TEST(SummarySaverHook, MakesDeferredSummariesOnlyWhenTheyAreDue) {
  FakeSession session;
  int calls = 0;
  session.step_spec.summaries.deferred.push_back([&calls](Summaries& summaries) {
    summaries.scalars.emplace_back("late", torch::tensor(static_cast<double>(++calls)));
  });
  SummarySaverHook hook({.save_steps = 5});
  session.run(hook, 9);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(scalars_by_tag(session)["late"], 2);
}

TEST(SummarySaverHook, WritesBySeconds) {
  FakeSession session;
  session.step_time = 1s;
  SummarySaverHook hook({.save_secs = 2s, .clock = session.clock()});
  session.run(hook, 5);
  EXPECT_THAT(summary_steps(session), ElementsAre(1, 3, 5));
}

TEST(SummarySaverHook, WritesTheFirstStepAfterARollBack) {
  FakeSession session;
  SummarySaverHook hook({.save_steps = 100});
  session.run(hook, 20);
  session.step = 5;
  hook.after_create_session(session);
  session.run(hook, 2);
  EXPECT_THAT(summary_steps(session), ElementsAre(1, 6));
}

TEST(SummarySaverHook, MarksTheStartOnce) {
  FakeSession session;
  SummarySaverHook hook({.save_steps = 1});
  session.run(hook, 3);
  int starts = 0;
  for (const Event& event : session.written_events()) {
    if (const auto* mark = std::get_if<SessionMark>(&event.what)) {
      starts += mark->status == SessionMark::Status::kStart ? 1 : 0;
    }
  }
  EXPECT_EQ(starts, 1);
}

TEST(SummarySaverHook, AddsLossAndLearningRateOfItsOwn) {
  FakeSession session;
  session.loss_value = 0.25;
  session.rates = {{"", 0.5}};
  SummarySaverHook hook({.save_steps = 1});
  session.run(hook);
  EXPECT_THAT(scalars_by_tag(session),
              UnorderedElementsAre(Pair("loss", 0.25), Pair("learning_rate", 0.5)));
}

TEST(SummarySaverHook, LeavesTheModelsOwnLossAndLearningRateAlone) {
  FakeSession session;
  session.loss_value = 0.25;
  session.rates = {{"", 0.5}};
  session.step_spec.summaries.scalars = {{"loss", torch::tensor(4.0)},
                                         {"learning_rate", torch::tensor(2)},
                                         {"accuracy", torch::tensor({0.75F})}};
  SummarySaverHook hook({.save_steps = 1});
  session.run(hook);
  EXPECT_THAT(
      scalars_by_tag(session),
      UnorderedElementsAre(Pair("loss", 4), Pair("learning_rate", 2), Pair("accuracy", 0.75)));
  EXPECT_EQ(session.loss_reads, 0);
}

TEST(SummarySaverHook, TellsTheRatesOfSeveralOptimizersApart) {
  FakeSession session;
  session.rates = {{"dnn", 0.5}, {"linear", 0.25}};
  SummarySaverHook hook({.save_steps = 1});
  session.run(hook);
  EXPECT_THAT(scalars_by_tag(session),
              UnorderedElementsAre(Key("loss"), Pair("learning_rate/dnn", 0.5),
                                   Pair("learning_rate/linear", 0.25)));
}

TEST(SummarySaverHook, WritesHistogramsOfAnyType) {
  FakeSession session;
  session.step_spec.summaries.histograms = {
      {"float", torch::tensor({1.0F, 2.0F, 4.0F}).requires_grad_()},
      {"half", torch::ones({5}, at::kBFloat16)},
      {"whole", torch::tensor({-3, 3}, at::kLong)},
      {"strided", torch::arange(6, at::kDouble).reshape({2, 3}).t()}};
  SummarySaverHook hook({.save_steps = 1});
  session.run(hook);
  const auto values = values_by_tag(session);
  const auto histogram = [&](const char* tag) {
    return std::get<HistogramData>(values.at(tag).data);
  };
  EXPECT_EQ(histogram("float").sum, 7);
  EXPECT_EQ(histogram("float").max, 4);
  EXPECT_EQ(histogram("half").num, 5);
  EXPECT_EQ(histogram("whole").min, -3);
  EXPECT_EQ(histogram("strided").sum, 15);
}

TEST(SummarySaverHook, WritesPicturesUpToTheLimit) {
  FakeSession session;
  session.step_spec.summaries.images = {{"input", torch::zeros({5, 2, 3, 1}, at::kByte)},
                                        {"one", torch::rand({1, 4, 4, 3})}};
  SummarySaverHook hook({.save_steps = 1, .max_images = 2});
  session.run(hook);
  const auto values = values_by_tag(session);
  EXPECT_THAT(values, UnorderedElementsAre(Key("loss"), Key("input/image/0"), Key("input/image/1"),
                                           Key("one/image")));
  const auto picture = std::get<ImageData>(values.at("input/image/1").data);
  EXPECT_EQ(picture.shape, (ImageShape{2, 3, 1}));
  EXPECT_THAT(picture.encoded, HasSubstr("PNG"));
}

TEST(SummarySaverHook, WritesTexts) {
  FakeSession session;
  session.step_spec.summaries.texts = {{"note", "**bold**"}};
  SummarySaverHook hook({.save_steps = 1});
  session.run(hook);
  EXPECT_EQ(values_by_tag(session).at("note").plugin, "text");
}

TEST(SummarySaverHook, NamesTheTagOfATensorThatDoesNotFit) {
  FakeSession session;
  session.step_spec.summaries.scalars = {{"wide", torch::zeros({3})}};
  SummarySaverHook hook({.save_steps = 1});
  try {
    session.run(hook);
    FAIL() << "a scalar of three elements was written";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("summary wide"));
  }
}

TEST(SummarySaverHook, AtTheEndAllIsOnTheDisk) {
  FakeSession session;
  SummarySaverHook hook({.save_steps = 1});
  session.run(hook);
  hook.end(session);
  EventReader reader(session.output_dir());
  int events = 0;
  while (reader.next()) ++events;
  EXPECT_EQ(events, 3);  // the version, the start mark, the scalars
}

TEST(SummarySaverHook, RefusesOptionsThatCannotWork) {
  EXPECT_THROW(SummarySaverHook({}), InvalidArgument);
  EXPECT_THROW(SummarySaverHook({.save_steps = 1, .save_secs = 1s}), InvalidArgument);
  EXPECT_THROW(SummarySaverHook({.save_steps = 1, .max_images = 0}), InvalidArgument);
}

}  // namespace
}  // namespace muster
