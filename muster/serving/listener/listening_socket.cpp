#include "muster/serving/listener/listening_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

using boost::asio::ip::tcp;

// A bound socket, or none with errno.
OwnedDescriptor bind_at(const sockaddr* address, socklen_t size) {
  OwnedDescriptor socket(
      ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.number() < 0) return socket;
  const int on = 1;
  const int off = 0;
  if (address->sa_family != AF_UNIX) {
    ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (address->sa_family == AF_INET6) {
    ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.number(), address, size) == 0) return socket;
  const int error = errno;
  socket = OwnedDescriptor();
  errno = error;
  return socket;
}

OwnedDescriptor bind_at(const tcp::endpoint& endpoint) {
  return bind_at(endpoint.data(), static_cast<socklen_t>(endpoint.size()));
}

[[noreturn]] void throw_no_port(const std::string& address, std::uint16_t port, int error) {
  throw Unavailable("cannot listen on port {}{}{}: {}", port, address.empty() ? "" : " of ",
                    address, std::strerror(error));
}

OwnedDescriptor bind_to(const std::string& address, std::uint16_t port) {
  OwnedDescriptor socket;
  if (address.empty()) {
    socket = bind_at(tcp::endpoint(boost::asio::ip::address_v6::any(), port));
    // A host without IPv6.
    if (socket.number() < 0 && errno != EADDRINUSE) {
      socket = bind_at(tcp::endpoint(boost::asio::ip::address_v4::any(), port));
    }
  } else {
    boost::system::error_code error;
    const auto ip = boost::asio::ip::make_address(address, error);
    if (error) throw InvalidArgument("\"{}\" is no IP address", address);
    socket = bind_at(tcp::endpoint(ip, port));
  }
  if (socket.number() < 0) throw_no_port(address, port, errno);
  return socket;
}

}  // namespace

OwnedDescriptor::~OwnedDescriptor() {
  if (number_ >= 0) ::close(number_);
}

OwnedDescriptor listen_on_port(const std::string& address, std::uint16_t port) {
  OwnedDescriptor socket = bind_to(address, port);
  if (::listen(socket.number(), SOMAXCONN) != 0) throw_no_port(address, port, errno);
  return socket;
}

OwnedDescriptor listen_on_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw InvalidArgument("the path of a Unix socket has {} bytes at most: {}",
                          sizeof address.sun_path - 1, path);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // One that an earlier server has left.
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) ::unlink(path.c_str());
  OwnedDescriptor socket = bind_at(reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (socket.number() < 0 || ::listen(socket.number(), SOMAXCONN) != 0) {
    throw Unavailable("cannot listen on {}: {}", path, std::strerror(errno));
  }
  return socket;
}

std::uint16_t port_of(const OwnedDescriptor& socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&storage), &size);
  // Both families have it in the same place.
  sockaddr_in address{};
  std::memcpy(&address, &storage, sizeof address);
  return ntohs(address.sin_port);
}

void check_port(const std::string& address, std::uint16_t port) { bind_to(address, port); }

}  // namespace muster::serving
