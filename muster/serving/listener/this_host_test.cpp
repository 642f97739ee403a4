#include "muster/serving/listener/this_host.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace muster::serving {
namespace {

bool is_this_host_at(const char* address) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  if (::inet_pton(AF_INET, address, &v4.sin_addr) == 1) {
    return is_this_host(reinterpret_cast<const sockaddr&>(v4));
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  EXPECT_EQ(::inet_pton(AF_INET6, address, &v6.sin6_addr), 1) << address;
  return is_this_host(reinterpret_cast<const sockaddr&>(v6));
}

TEST(ThisHost, IsBehindEveryLoopbackAddress) {
  for (const char* address : {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_this_host_at(address)) << address;
  }
}

TEST(ThisHost, IsBehindNoOtherAddress) {
  for (const char* address : {"128.0.0.1", "10.127.0.1", "0.0.0.0", "::", "fe80::1", "2001:db8::1",
                              "::ffff:10.0.0.127", "7f00::1"}) {
    EXPECT_FALSE(is_this_host_at(address)) << address;
  }
}

TEST(ThisHost, IsBehindAUnixSocket) {
  const sockaddr_un peer{.sun_family = AF_UNIX, .sun_path = {}};
  EXPECT_TRUE(is_this_host(reinterpret_cast<const sockaddr&>(peer)));
}

}  // namespace
}  // namespace muster::serving
