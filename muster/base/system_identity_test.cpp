#include "muster/base/system_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::MatchesRegex;

TEST(SystemIdentity, IsThatOfTheBootAndOfNamespaces) {
  EXPECT_THAT(boot_id(), MatchesRegex("[0-9a-f-]{36}"));
  EXPECT_EQ(boot_id(), boot_id());
  EXPECT_THAT(own_namespace("pid"), MatchesRegex(R"(pid:\[[0-9]+\])"));
  EXPECT_EQ(own_namespace("no-such-kind"), "");
}

}  // namespace
}  // namespace muster
