#include "muster/platform/net/address_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster::net {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

TEST(Address, IsTakenApartAtItsLastColon) {
  EXPECT_EQ(parse_host_port("ps-0.local:2222").host, "ps-0.local");
  EXPECT_EQ(parse_host_port("ps-0.local:2222").port, "2222");
  EXPECT_EQ(parse_host_port("[::1]:80").host, "::1");
  EXPECT_EQ(parse_host_port(":0").host, "");
}

TEST(Address, WhatIsNoneIsRefusedAsItWasWritten) {
  for (const std::string wrong :
       {"", "host", "host:", "host:http", "host:65536", "host:-1", "::1:80", "http://host:80",
        "two words:80", "[::1:80", "host:80 "}) {
    EXPECT_THAT(message_of([&] { parse_host_port(wrong); }),
                HasSubstr("not an address: '" + wrong + "'"));
  }
}

TEST(Address, ResolvesToWhatTheKernelTakesAndBack) {
  EXPECT_EQ(resolve("127.0.0.1:2222", Use::kConnect).at(0).to_string(), "127.0.0.1:2222");
  EXPECT_EQ(resolve("[::1]:2222", Use::kListen).at(0).to_string(), "[::1]:2222");
  EXPECT_EQ(resolve("localhost:7", Use::kConnect).at(0).port(), 7);
  EXPECT_THROW(resolve("no-such-host.invalid:1", Use::kConnect), Unavailable);
}

}  // namespace
}  // namespace muster::net
