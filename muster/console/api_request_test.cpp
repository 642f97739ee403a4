#include "muster/console/api_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::console {
namespace {

using ::testing::ElementsAre;

ApiRequest parsed(std::string target) {
  return ApiRequest::parse({.method = "GET", .target = std::move(target)});
}

TEST(ApiRequest, PathAndQueryAreDecoded) {
  const ApiRequest request = parsed("/api/jobs/a%2Fb?run=x%26y&run=a+b&tag=loss");
  EXPECT_THAT(request.path, ElementsAre("api", "jobs", "a/b"));
  EXPECT_THAT(request.all("run"), ElementsAre("x&y", "a b"));
  EXPECT_EQ(request.first("tag"), "loss");
  EXPECT_EQ(request.first("none"), std::nullopt);
}

TEST(ApiRequest, NumbersAreWithinTheirBounds) {
  EXPECT_EQ(parsed("/api?points=10").number("points", 5, 2, 20), 10U);
  EXPECT_EQ(parsed("/api").number("points", 5, 2, 20), 5U);
  for (const char* wrong : {"1", "21", "-3", "1e1", "", "99999999999999999999999"}) {
    EXPECT_THROW(parsed(fmt::format("/api?points={}", wrong)).number("points", 5, 2, 20),
                 InvalidArgument)
        << wrong;
  }
}

TEST(ApiRequest, RefusesWhatCannotBeDecoded) {
  EXPECT_THROW(parsed("/api/%zz"), InvalidArgument);
  EXPECT_THROW(parsed("/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a"), InvalidArgument);
}

}  // namespace
}  // namespace muster::console
