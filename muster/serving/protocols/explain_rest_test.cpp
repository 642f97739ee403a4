#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "muster/serving/core/service_fake.h"
#include "muster/serving/protocols/rest_api.h"

namespace muster::serving {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ExplainRest : public ::testing::Test {
 protected:
  HttpResponse explain(const std::string& path, const std::string& body) {
    return api_.handle({.method = "POST", .target = path, .body = body, .is_from_this_host = true});
  }

  FakeService fake_{};
  RestApi api_{fake_.service(), {}};
};

TEST_F(ExplainRest, ExplainsInstancesByTheVersionThatTheRuleChooses) {
  const std::string body = R"({"instances": [3, 5], "parameters": {"baseline": 1}})";
  const HttpResponse newest = explain("/v1/models/m:explain", body);
  ASSERT_EQ(newest.status, 200) << newest.body;
  const json answer = json::parse(newest.body);
  ASSERT_EQ(answer["explanations"].size(), 2U);
  const json second = answer["explanations"][1]["attributions"][0];
  EXPECT_EQ(second["featureAttributions"], json({{"x", 4.0}}));
  EXPECT_EQ(second["instanceOutputValue"], 7.0);
  EXPECT_EQ(second["baselineOutputValue"], 3.0);
  EXPECT_EQ(newest.headers, (Headers{{"X-Muster-Version", "2"}}));
  for (const auto* path :
       {"/v1/models/m/versions/1:explain", "/v1/models/m/labels/stable:explain"}) {
    const HttpResponse first = explain(path, body);
    EXPECT_EQ(json::parse(first.body)["explanations"][0]["attributions"][0]["instanceOutputValue"],
              4.0);
    EXPECT_EQ(first.headers, (Headers{{"X-Muster-Version", "1"}}));
  }
}

TEST_F(ExplainRest, CountsExplanationsAndTheirFailures) {
  EXPECT_EQ(explain("/v1/models/m:explain", R"({"instances": [3]})").status, 200);
  EXPECT_EQ(explain("/v1/models/m:explain", R"({"instances": ["no"]})").status, 400);
  EXPECT_EQ(explain("/v1/models/none:explain", R"({"instances": [3]})").status, 404);
  const HttpResponse wrong =
      explain("/v1/models/m:explain", R"({"instances": [3], "parameters": {"steps": -1}})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr("steps must be from 1 to 4096: -1"));
  EXPECT_EQ(
      explain("/v1/models/m:explain", R"({"instances": [3], "signature_name": "none"})").status,
      404);
  EXPECT_THAT(fake_.service().metrics_page(), HasSubstr("method=\"Explain\""));
  const VersionCounts counts = fake_.service().statistics().counts("m", 2);
  EXPECT_EQ(counts.success, 1U);
  EXPECT_EQ(counts.failure, 2U);
  EXPECT_EQ(fake_.service().in_flight(), 0);
}

}  // namespace
}  // namespace muster::serving
