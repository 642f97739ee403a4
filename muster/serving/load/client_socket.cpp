#include "muster/serving/load/client_socket.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;

}  // namespace

ServerAddress resolve_server(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == text.npos || colon + 1 == text.size() || colon == 0) {
    throw InvalidArgument("the server must be HOST:PORT: {}", text);
  }
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), text.c_str() + colon + 1, &hints, &found);
  if (error != 0) throw Unavailable("{}: {}", text, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  // IPv4 first: a server that listens on 0.0.0.0 does not answer at ::1.
  const addrinfo* chosen = found;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      chosen = one;
      break;
    }
  }
  ServerAddress out{.text = text, .length = chosen->ai_addrlen};
  std::memcpy(&out.address, chosen->ai_addr, chosen->ai_addrlen);
  return out;
}

ClientSocket::ClientSocket(const ServerAddress& server)
    : descriptor_(
          ::socket(server.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (!is_open()) throw_errno(errno, "opening a connection");
  const int one = 1;
  ::setsockopt(descriptor(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  const int made =
      ::connect(descriptor(), reinterpret_cast<const sockaddr*>(&server.address), server.length);
  if (made == 0 || errno == EINPROGRESS) return;
  throw Unavailable("{}: {}", server.text, std::strerror(errno));
}

int ClientSocket::failure() const {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

long ClientSocket::send(std::string_view bytes) const {
  while (true) {
    const ssize_t sent = ::send(descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return sent;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return -1;
  }
}

bool ClientSocket::receive(std::string& out) const {
  thread_local const std::unique_ptr<char[]> piece(new char[kReadBytes]);
  while (true) {
    const ssize_t size = ::recv(descriptor(), piece.get(), kReadBytes, 0);
    if (size > 0) {
      out.append(piece.get(), static_cast<std::size_t>(size));
      // The rest is reported again.
      return true;
    }
    if (size < 0 && errno == EINTR) continue;
    return size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
}

}  // namespace muster::serving
