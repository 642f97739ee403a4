#include "muster/serving/core/shadow_traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/serving/core/service_fake.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

using ::testing::HasSubstr;

Tensors tensors_of(const std::string& name, const std::vector<float>& values) {
  return {{name, graph::TensorValue::vector<float>(values)}};
}

TEST(ShadowRule, ReadsModelsVersionsAndShares) {
  const ShadowRule number = ShadowRule::parse("census=2:0.25");
  EXPECT_EQ(number.model, "census");
  EXPECT_EQ(number.shadow_model, "census");
  EXPECT_EQ(number.shadow.number, 2);
  EXPECT_EQ(number.share, 0.25);
  const ShadowRule label = ShadowRule::parse("census=other/canary:1");
  EXPECT_EQ(label.shadow_model, "other");
  EXPECT_EQ(label.shadow.label, "canary");
  EXPECT_FALSE(label.shadow.number);
  for (const auto* wrong :
       {"", "m", "m=2", "=2:1", "m=:1", "m=2:", "m=2:1.5", "m=2:-1", "m=2:x", "m=/2:1", "m=o/:1"}) {
    EXPECT_THAT(testing::message_of([&] { ShadowRule::parse(wrong); }),
                HasSubstr("shadow traffic must be MODEL=VERSION:SHARE"))
        << wrong;
  }
}

TEST(ShadowDifference, IsWhatLiesBeyondTheTolerance) {
  const Tensors answer = tensors_of("y", {1, 200});
  EXPECT_EQ(difference_of(answer, answer, 0), "");
  EXPECT_EQ(difference_of(answer, tensors_of("y", {1.05F, 201}), 0.1), "");
  EXPECT_THAT(difference_of(answer, tensors_of("y", {1, 230}), 0.1),
              HasSubstr("y[1] is 200, and in the shadow 230"));
  EXPECT_THAT(difference_of(answer, tensors_of("z", {1, 200}), 0.1), HasSubstr("no output y"));
  EXPECT_THAT(difference_of(answer, tensors_of("y", {1}), 0.1), HasSubstr("another type or shape"));
  const float nan = std::nanf("");
  EXPECT_EQ(difference_of(tensors_of("y", {nan}), tensors_of("y", {nan}), 0), "");
  EXPECT_NE(difference_of(tensors_of("y", {nan}), tensors_of("y", {1}), 1), "");
  const auto words = [](const std::string& word) {
    return Tensors{{"w", graph::TensorValue::of_strings({1}, {word})}};
  };
  EXPECT_EQ(difference_of(words("a"), words("a"), 0), "");
  EXPECT_EQ(difference_of(words("a"), words("b"), 1), "w differs");
}

/// A model "m" whose versions 1 and 2 add 1 and 2.
class ShadowService : public ::testing::Test {
 protected:
  void shadow(const std::string& rule, double tolerance = 1e-4) {
    fake_.service().add_observer(std::make_shared<ShadowTraffic>(
        fake_.store(), ShadowOptions{.rules = {ShadowRule::parse(rule)}, .tolerance = tolerance}));
  }
  float answer(float x, std::int64_t version) {
    // Shared: the thread that sets it may still be at it when the value is there.
    const auto given = std::make_shared<std::promise<float>>();
    const auto y = std::make_shared<float>();
    fake_.service().start({.model = "m", .version = {.number = version}}, nullptr,
                          {.inputs = [x](const auto&, const auto&) { return tensors_of("x", {x}); },
                           .answer =
                               [y](const auto&, const BatchAnswer& found) {
                                 *y = found.outputs.at("y").values<float>()[0];
                               }},
                          [given, y](const std::exception_ptr& failure) {
                            EXPECT_EQ(failure, nullptr);
                            given->set_value(*y);
                          });
    return given->get_future().get();
  }
  bool counts(const std::string& result, int count) {
    const std::string line = fmt::format("result=\"{}\"}} {}\n", result, count);
    return testing::eventually(
        [&] { return fake_.service().metrics_page().find(line) != std::string::npos; });
  }

  FakeService fake_{};
};

TEST_F(ShadowService, ComparesAnswersAndCountsThoseThatDiffer) {
  shadow("m=2:1");
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(answer(5, 1), 6);
  EXPECT_TRUE(counts("different", 20));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("shadow answers differ model=m version=1 shadow=m/2 "
                             "signature=serving_default request={\"x\": [5.0]}: y[0] is 6, and in "
                             "the shadow 7"));
  std::size_t lines = 0;
  for (auto at = log.find("differ"); at != log.npos; at = log.find("differ", at + 1)) ++lines;
  EXPECT_EQ(lines, 10U);
  // A request that the shadow computes is none of its own.
  EXPECT_EQ(fake_.service().statistics().counts("m", 2).success, 0U);
}

TEST_F(ShadowService, LeavesTheShadowsOwnRequestsAlone) {
  shadow("m=2:1");
  EXPECT_EQ(answer(5, 2), 7);
  EXPECT_EQ(answer(5, 1), 6);
  EXPECT_TRUE(counts("different", 1));
}

TEST_F(ShadowService, TakesItsToleranceForNumbers) {
  shadow("m=stable:1", 0.5);
  EXPECT_EQ(answer(5, 2), 7);
  EXPECT_TRUE(counts("same", 1));
}

TEST_F(ShadowService, CountsShadowsThatAreNotThere) {
  shadow("m=7:1");
  EXPECT_EQ(answer(5, 1), 6);
  EXPECT_TRUE(counts("failed", 1));
}

TEST_F(ShadowService, DrawsAShareOfTheRequests) {
  shadow("m=2:0.5");
  for (int i = 0; i < 400; ++i) answer(5, 1);
  const auto counted = [&] {
    const std::string page = fake_.service().metrics_page();
    const std::string line = "result=\"different\"} ";
    const auto at = page.find(line);
    return at == page.npos ? 0 : std::stoi(page.substr(at + line.size()));
  };
  // Beyond this in one of 10^9 runs.
  EXPECT_TRUE(testing::eventually([&] { return counted() > 140; }));
  EXPECT_LT(counted(), 260);
}

}  // namespace
}  // namespace muster::serving
