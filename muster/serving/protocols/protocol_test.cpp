#include "muster/serving/protocols/protocol_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace muster::serving {
namespace {

// The prefix of the route that takes a path, or "none".
std::string_view prefix_of(std::string_view path,
                           const std::vector<Protocol>& protocols = all_protocols()) {
  const RestRoute* const route = find_route(protocols, path);
  return route == nullptr ? "none" : route->prefix;
}

TEST(Protocols, TakeTheirPathsAndNoOthers) {
  EXPECT_EQ(prefix_of("/v1/models/m:predict"), "/v1/");
  EXPECT_EQ(prefix_of("/V1/models"), "/v1/");
  EXPECT_EQ(prefix_of("/v1/"), "/v1/");
  EXPECT_EQ(prefix_of("/v1"), "none");
  EXPECT_EQ(prefix_of("/v2"), "/v2");
  EXPECT_EQ(prefix_of("/v2/models/m/infer"), "/v2");
  EXPECT_EQ(prefix_of("/V2/models"), "none");
  EXPECT_EQ(prefix_of("/v21"), "none");
  EXPECT_EQ(prefix_of("/"), "none");
  EXPECT_EQ(prefix_of(""), "none");
}

TEST(Protocols, LeaveAPathToTheLongestPrefix) {
  EXPECT_EQ(prefix_of("/v1/projects/p/models"), "/v1/projects/");
  EXPECT_EQ(prefix_of("/v1/projects"), "/v1/");
  EXPECT_EQ(prefix_of("/V1/projects/p/models"), "/v1/");
  const Protocol wide{.rest = {{.prefix = "/a"}}};
  const Protocol narrow{.rest = {{.prefix = "/a/b"}}};
  EXPECT_EQ(prefix_of("/a/b/c", {wide, narrow}), "/a/b");
  EXPECT_EQ(prefix_of("/a/b/c", {narrow, wide}), "/a/b");
  EXPECT_EQ(prefix_of("/a/bc", {narrow, wide}), "/a");
}

TEST(Protocols, HavePathsAndServicesOfTheirOwn) {
  std::set<std::string_view> prefixes;
  std::set<std::string_view> services;
  for (const Protocol& protocol : all_protocols()) {
    EXPECT_FALSE(protocol.rest.empty() && protocol.grpc_services.empty());
    EXPECT_EQ(protocol.grpc_services.empty(), protocol.add_grpc_methods == nullptr);
    for (const RestRoute& route : protocol.rest) {
      EXPECT_TRUE(prefixes.insert(route.prefix).second) << route.prefix;
      EXPECT_NE(route.answer, nullptr) << route.prefix;
    }
    for (const GrpcServiceName& service : protocol.grpc_services) {
      EXPECT_TRUE(services.insert(service.name).second) << service.name;
    }
  }
  EXPECT_TRUE(prefixes.contains("/v1/") && prefixes.contains("/v2"));
}

}  // namespace
}  // namespace muster::serving
