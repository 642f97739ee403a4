#include "muster/testing/tcp_relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "muster/base/error.h"

namespace muster::testing {

TcpRelay::TcpRelay(const std::string& server)
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  if (::bind(listener_, address, size) != 0 || ::listen(listener_, 4) != 0 ||
      ::getsockname(listener_, address, &size) != 0) {
    throw_errno(errno, "listening");
  }
  address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  server_.sin_family = AF_INET;
  server_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  server_.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(server.substr(server.rfind(':') + 1))));
  thread_ = std::jthread([this] { run(); });
}

TcpRelay::~TcpRelay() {
  ::shutdown(listener_, SHUT_RDWR);
  for (const int side : {client_side_.load(), server_side_.load()}) {
    if (side >= 0) ::shutdown(side, SHUT_RDWR);
  }
  thread_.join();
  for (const int side : {listener_, client_side_.load(), server_side_.load()}) {
    if (side >= 0) ::close(side);
  }
}

std::string TcpRelay::seen() {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void TcpRelay::run() {
  client_side_ = ::accept(listener_, nullptr, nullptr);
  if (client_side_ < 0) return;
  server_side_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(server_side_, reinterpret_cast<const sockaddr*>(&server_), sizeof server_) != 0) {
    return;
  }
  const std::jthread back([this] { pass(server_side_, client_side_, to_client_); });
  pass(client_side_, server_side_, to_server_);
}

void TcpRelay::pass(int from, int to, Direction& direction) {
  std::vector<char> bytes(4096);
  for (;;) {
    const ssize_t came = ::recv(from, bytes.data(), bytes.size(), 0);
    if (came <= 0) break;
    if (direction.flip >= 0) {
      if (direction.flip < came) bytes[static_cast<std::size_t>(direction.flip.load())] ^= 1;
      direction.flip -= came;
    }
    ssize_t count = came;
    if (direction.left >= 0) {
      count = std::min<ssize_t>(came, direction.left);
      direction.left -= count;
    }
    {
      const std::lock_guard lock(mutex_);
      seen_.append(bytes.data(), static_cast<std::size_t>(count));
    }
    if (::send(to, bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) != count) break;
  }
  if (direction.left < 0) ::shutdown(to, SHUT_WR);
}

}  // namespace muster::testing
