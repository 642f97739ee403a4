#include "muster/train/hooks/profiler_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"
#include "muster/train/hooks/op_trace.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::ElementsAre;
using testing::FakeSession;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogLines;

void train_a_little() {
  const auto x = torch::ones({4, 3});
  const auto w = torch::ones({3, 2}).requires_grad_();
  x.mm(w).tanh().sum().backward();
}

std::vector<json> events_of(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

std::vector<json> spans_named(const json& trace, const std::string& name) {
  std::vector<json> found;
  for (const json& event : events_of(trace, "X")) {
    if (event.at("name") == name) found.push_back(event);
  }
  return found;
}

std::vector<std::string> timelines_in(const Path& folder) {
  std::vector<std::string> names;
  for (const Path& path : glob(folder / "timeline-*")) names.push_back(path.filename().string());
  return names;
}

TEST(OpTrace, HasEveryOperatorBetweenBeginAndStop) {
  torch::ones({2}).sinh();
  OpTrace recording;
  train_a_little();
  recording.stop();
  torch::ones({2}).cosh();
  const json trace = json::parse(recording.chrome_json(/*show_dataflow=*/false));
  EXPECT_EQ(spans_named(trace, "aten::mm").size(), 2U) << "one forward, one backward";
  EXPECT_EQ(spans_named(trace, "TanhBackward0").size(), 1U);
  EXPECT_THAT(spans_named(trace, "aten::sinh"), IsEmpty());
  EXPECT_THAT(spans_named(trace, "aten::cosh"), IsEmpty());
  for (const json& span : events_of(trace, "X")) {
    EXPECT_GE(span.at("ts").get<double>(), 0);
    EXPECT_GE(span.at("dur").get<double>(), 0);
  }
}

TEST(OpTrace, ArrowsLeadFromAnOperatorToItsBackwardFunction) {
  OpTrace recording;
  train_a_little();
  recording.stop();
  const json trace = json::parse(recording.chrome_json(/*show_dataflow=*/true));
  const double tanh = spans_named(trace, "aten::tanh").at(0).at("ts");
  const double backward = spans_named(trace, "TanhBackward0").at(0).at("ts");
  bool found = false;
  for (const json& from : events_of(trace, "s")) {
    for (const json& to : events_of(trace, "f")) {
      if (from.at("id") == to.at("id") && from.at("ts") == tanh) found |= to.at("ts") == backward;
    }
  }
  EXPECT_TRUE(found);
  EXPECT_THAT(events_of(json::parse(recording.chrome_json(false)), "s"), IsEmpty());
}

TEST(OpTrace, SeesOtherThreadsUnderTheirOwnNumbers) {
  OpTrace recording;
  torch::ones({2}).sinh();
  std::jthread([] { torch::ones({2}).cosh(); }).join();
  recording.stop();
  const json trace = json::parse(recording.chrome_json(false));
  EXPECT_NE(spans_named(trace, "aten::sinh").at(0).at("tid"),
            spans_named(trace, "aten::cosh").at(0).at("tid"));
}

TEST(OpTrace, TwoAtATimeDoNotEndEachOther) {
  OpTrace outer;
  {
    OpTrace inner;
    torch::ones({2}).sinh();
  }
  torch::ones({2}).cosh();
  outer.stop();
  const json trace = json::parse(outer.chrome_json(false));
  EXPECT_EQ(spans_named(trace, "aten::sinh").size(), 1U);
  EXPECT_EQ(spans_named(trace, "aten::cosh").size(), 1U);
}

TEST(ProfilerHook, WritesATimelineByItsPeriodButNeverOfTheFirstStep) {
  FakeSession session;
  ProfilerHook hook({.save_steps = 3});
  hook.after_create_session(session);
  session.run(hook, 9);
  EXPECT_THAT(timelines_in(session.output_dir()),
              ElementsAre("timeline-2.json", "timeline-5.json", "timeline-8.json"));
}

TEST(ProfilerHook, ATimelineShowsTheStepAlone) {
  FakeSession session;
  ProfilerHook hook({.save_steps = 1, .output_dir = session.output_dir() / "profiles"});
  hook.after_create_session(session);
  session.run(hook);
  torch::ones({2}).cosh();
  hook.before_run(session);
  train_a_little();
  ++session.step;
  hook.after_run(session);
  const auto trace =
      json::parse(testing::read_bytes(session.output_dir() / "profiles/timeline-2.json"));
  EXPECT_EQ(spans_named(trace, "aten::tanh").size(), 1U);
  EXPECT_THAT(spans_named(trace, "aten::cosh"), IsEmpty());
}

TEST(ProfilerHook, GoesOnWhenATimelineCannotBeWritten) {
  FakeSession session;
  const Path blocked = session.output_dir() / "a_file";
  testing::write_bytes(blocked, "");
  ProfilerHook hook({.save_steps = 1, .output_dir = blocked});
  hook.after_create_session(session);
  const LogLines log;
  session.run(hook, 2);
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("a timeline is lost")));
}

TEST(ProfilerHook, WantsExactlyOnePeriod) {
  EXPECT_THROW(ProfilerHook({}), InvalidArgument);
  EXPECT_THROW(ProfilerHook({.save_steps = 1, .save_secs = 1s}), InvalidArgument);
}

}  // namespace
}  // namespace muster
