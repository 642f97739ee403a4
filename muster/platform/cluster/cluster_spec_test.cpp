#include "muster/platform/cluster/cluster_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string error_of(const ClusterSpec::Jobs& jobs) {
  try {
    ClusterSpec spec(jobs);
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  return "no error";
}

TEST(ClusterSpec, FindsTasksByJobAndIndex) {
  const ClusterSpec spec({{"worker", {{0, "a:1"}, {7, "b:2"}}}, {"ps", {{0, "c:3"}}}});
  EXPECT_EQ(spec.address("worker", 7), "b:2");
  EXPECT_EQ(spec.address("worker", 1), std::nullopt);
  EXPECT_EQ(spec.address("chief", 0), std::nullopt);
  EXPECT_EQ(spec.count("worker"), 2);
  EXPECT_EQ(spec.index_end("worker"), 8);
  EXPECT_EQ(spec.count(), 3);
}

TEST(ClusterSpec, PrintsJobsWithoutGapsAsLists) {
  const ClusterSpec spec({{"worker", {{0, "a:1"}, {7, "b:2"}}}, {"ps", {{0, "c:3"}, {1, "d:4"}}}});
  EXPECT_EQ(spec.to_string(), R"({"ps": ["c:3", "d:4"], "worker": {"0": "a:1", "7": "b:2"}})");
}

TEST(ClusterSpec, SkipsJobsWithoutTasks) {
  EXPECT_TRUE(ClusterSpec(ClusterSpec::Jobs{{"worker", {}}}).empty());
}

TEST(ClusterSpec, AcceptsNamesAndNumericAddresses) {
  for (const char* address : {"localhost:2222", "10.0.0.1:0", "[::1]:65535", "a-b.c_d.local:1"}) {
    EXPECT_EQ(error_of({{"worker", {{0, address}}}}), "no error") << address;
  }
}

TEST(ClusterSpec, RefusesWhatCannotBeDialledAndNamesTheTask) {
  for (const char* address : {"", "host", ":2222", "host:", "host:99999", "host:x", "ho st:1",
                              "grpc://host:1", "host:-1"}) {
    EXPECT_THAT(error_of({{"worker", {{3, address}}}}), HasSubstr("cluster.worker[3]")) << address;
  }
  EXPECT_THAT(error_of({{"ps", {{-1, "a:1"}}}}), HasSubstr("index -1 is negative"));
  EXPECT_THAT(error_of({{"", {{0, "a:1"}}}}), HasSubstr("empty name"));
}

}  // namespace
}  // namespace muster
