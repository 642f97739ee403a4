#include "muster/server/peer_calls_internal.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "muster/testing/raw_tcp.h"

namespace muster::server {
namespace {

using testing::RawTcp;
using testing::RawTcpServer;

std::uint16_t port_of(const RawTcp& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

/// A client and the server's end of its connection.
struct Connected {
  RawTcp client;
  RawTcp server;

  explicit Connected(RawTcpServer& listener)
      : client(listener.address()), server(listener.accept()) {}
  std::string peer() const { return fmt::format("ipv4:127.0.0.1:{}", port_of(client)); }
  std::uint16_t port() const { return port_of(server); }
  bool is_open() {
    client.send("x");
    return server.read(1) == "x";
  }
};

TEST(ResetConnections, ResetsThatOfThePeerAlone) {
  RawTcpServer listener;
  Connected one(listener);
  Connected other(listener);
  EXPECT_EQ(reset_connections(one.peer(), one.port()), 1);
  EXPECT_FALSE(one.is_open());
  EXPECT_TRUE(other.is_open());
}

TEST(ResetConnections, LeavesOtherPortsAndWhatItCannotReadAlone) {
  RawTcpServer listener;
  Connected one(listener);
  EXPECT_EQ(reset_connections(one.peer(), one.port() ^ 1), 0);
  EXPECT_EQ(reset_connections("unix:/tmp/socket", one.port()), 0);
  EXPECT_EQ(reset_connections("ipv4:127.0.0.1:", one.port()), 0);
  EXPECT_EQ(reset_connections("ipv6:[::2]:" + std::to_string(port_of(one.client)), one.port()), 0);
  EXPECT_TRUE(one.is_open());
}

TEST(ResetConnections, KnowsAnAddressOfIpv4InIpv6) {
  RawTcpServer listener;
  Connected one(listener);
  const std::string peer = fmt::format("ipv6:%5B::ffff:127.0.0.1%5D:{}", port_of(one.client));
  EXPECT_EQ(reset_connections(peer, one.port()), 1);
}

TEST(PeerCalls, ResetsAConnectionWithTooManyCallsAtOneTime) {
  RawTcpServer listener;
  Connected one(listener);
  PeerCalls calls(2);
  calls.set_port(one.port());
  for (int i = 0; i < 10; ++i) {
    calls.begin(one.peer());
    calls.begin(one.peer());
    calls.end(one.peer());
    calls.end(one.peer());
  }
  EXPECT_EQ(calls.size(), 0);
  EXPECT_TRUE(one.is_open());
  for (int i = 0; i < 3; ++i) calls.begin(one.peer());
  EXPECT_FALSE(one.is_open());
  for (int i = 0; i < 3; ++i) calls.end(one.peer());
  EXPECT_EQ(calls.size(), 0);
}

TEST(PeerCalls, DoesNotCountClientsOfUnixSockets) {
  PeerCalls calls(2);
  calls.begin("unix:");
  EXPECT_EQ(calls.size(), 0);
  calls.end("unix:");
}

}  // namespace
}  // namespace muster::server
