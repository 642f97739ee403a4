#include "muster/server/peer_calls_internal.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "muster/base/log.h"

namespace muster::server {
namespace {

/// An address of either family, IPv4 as IPv6 has it.
struct Endpoint {
  in6_addr address{};
  std::uint16_t port = 0;

  bool operator==(const Endpoint& other) const {
    return port == other.port && std::memcmp(&address, &other.address, sizeof address) == 0;
  }
};

in6_addr mapped(const in_addr& address) {
  in6_addr out{};
  out.s6_addr[10] = 0xff;
  out.s6_addr[11] = 0xff;
  std::memcpy(out.s6_addr + 12, &address, sizeof address);
  return out;
}

std::optional<Endpoint> endpoint_of(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &storage, sizeof v4);
    return Endpoint{mapped(v4.sin_addr), ntohs(v4.sin_port)};
  }
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &storage, sizeof v6);
    return Endpoint{v6.sin6_addr, ntohs(v6.sin6_port)};
  }
  return std::nullopt;
}

// "ipv4:127.0.0.1:50000", "ipv6:[::1]:50000", the brackets also as %5B and %5D.
std::optional<Endpoint> endpoint_of(std::string_view peer) {
  const std::size_t colon = peer.rfind(':');
  if (!peer.starts_with("ipv") || colon == std::string_view::npos || colon < 5) return std::nullopt;
  Endpoint out;
  const std::string_view port = peer.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc() || end != port.data() + port.size()) return std::nullopt;
  std::string_view host = peer.substr(5, colon - 5);
  for (const std::string_view open : {"[", "%5B"}) {
    if (host.starts_with(open)) host.remove_prefix(open.size());
  }
  for (const std::string_view close : {"]", "%5D"}) {
    if (host.ends_with(close)) host.remove_suffix(close.size());
  }
  const std::string text(host.substr(0, host.find('%')));  // Without a zone.
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    out.address = mapped(v4);
    return out;
  }
  if (::inet_pton(AF_INET6, text.c_str(), &out.address) == 1) return out;
  return std::nullopt;
}

template <typename Name>
std::optional<Endpoint> endpoint_by(const Name& name_of, int descriptor) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (name_of(descriptor, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  return endpoint_of(storage);
}

// Clients of a Unix socket are of this host, and all have one name.
bool is_counted(std::string_view peer) { return peer.starts_with("ipv"); }

std::vector<int> open_descriptors() {
  std::vector<int> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!folder) return out;
  while (const dirent* const entry = ::readdir(folder.get())) {
    int number = 0;
    const char* const name = entry->d_name;
    const auto [end, error] = std::from_chars(name, name + std::strlen(name), number);
    if (error == std::errc() && *end == 0) out.push_back(number);
  }
  return out;
}

}  // namespace

std::size_t reset_connections(std::string_view peer, std::uint16_t port) {
  const auto wanted = endpoint_of(peer);
  if (!wanted) return 0;
  std::size_t count = 0;
  for (const int open : open_descriptors()) {
    // A descriptor of our own: the number may be another connection's a moment later.
    const int descriptor = ::fcntl(open, F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) continue;
    const auto local = endpoint_by(::getsockname, descriptor);
    if (local && local->port == port && endpoint_by(::getpeername, descriptor) == wanted) {
      // Where shutdown() would leave what has come to be read, this drops it and sends a reset.
      sockaddr none{};
      none.sa_family = AF_UNSPEC;
      if (::connect(descriptor, &none, sizeof none) == 0) ++count;
    }
    ::close(descriptor);
  }
  return count;
}

void PeerCalls::set_port(std::uint16_t port) {
  const std::lock_guard lock(mutex_);
  port_ = port;
}

void PeerCalls::begin(const std::string& peer) {
  if (!is_counted(peer)) return;
  std::uint16_t port = 0;
  {
    const std::lock_guard lock(mutex_);
    if (++calls_[peer] != most_of_one_ + 1) return;
    port = port_;
  }
  const std::size_t count = reset_connections(peer, port);
  log::warning(
      "reset the connection of a client that cancels calls faster than they end peer={} "
      "calls={} connections={}",
      peer, most_of_one_, count);
}

void PeerCalls::end(const std::string& peer) {
  if (!is_counted(peer)) return;
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(peer);
  if (--found->second == 0) calls_.erase(found);
}

std::size_t PeerCalls::size() const {
  const std::lock_guard lock(mutex_);
  return calls_.size();
}

}  // namespace muster::server
