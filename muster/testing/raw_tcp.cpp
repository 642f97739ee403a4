#include "muster/testing/raw_tcp.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "muster/base/error.h"

namespace muster::testing {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void give_up_after_a_minute(int descriptor) {
  const timeval minute{.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof(minute));
}

}  // namespace

RawTcp::RawTcp(const std::string& address)
    : RawTcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const sockaddr_in to = loopback(port);
  EXPECT_EQ(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
}

RawTcp::RawTcp(int descriptor) : descriptor_(descriptor) { give_up_after_a_minute(descriptor_); }

RawTcp::~RawTcp() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RawTcp::RawTcp(RawTcp&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

bool RawTcp::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::string RawTcp::read(std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t count = ::recv(descriptor_, bytes.data() + filled, size - filled, 0);
    if (count < 0 && errno == EINTR) continue;
    EXPECT_FALSE(count < 0 && errno == EAGAIN) << "nothing came for a minute";
    if (count <= 0) break;
    filled += static_cast<std::size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

std::string RawTcp::read_to_end() {
  std::string all;
  char piece[1 << 14];
  for (;;) {
    const ssize_t count = ::recv(descriptor_, piece, sizeof(piece), 0);
    if (count < 0 && errno == EINTR) continue;
    EXPECT_FALSE(count < 0 && errno == EAGAIN) << "nothing came for a minute";
    if (count <= 0) return all;
    all.append(piece, static_cast<std::size_t>(count));
  }
}

RawTcpServer::RawTcpServer() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in at = loopback(0);
  socklen_t size = sizeof(at);
  if (descriptor_ < 0) throw_errno(errno, "making a socket");
  EXPECT_EQ(::bind(descriptor_, reinterpret_cast<const sockaddr*>(&at), size), 0);
  EXPECT_EQ(::listen(descriptor_, 16), 0);
  EXPECT_EQ(::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&at), &size), 0);
  port_ = ntohs(at.sin_port);
  address_ = "127.0.0.1:" + std::to_string(port_);
}

RawTcpServer::~RawTcpServer() { ::close(descriptor_); }

RawTcp RawTcpServer::accept() {
  return RawTcp(::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC));
}

}  // namespace muster::testing
