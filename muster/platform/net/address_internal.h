#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

namespace muster::net {

/// An address as people write it, taken apart.
struct HostPort {
  std::string host{};
  std::string port{};
};

/// "host:port", "1.2.3.4:port", "[::1]:port"; an empty host is any address of this machine. Throws
/// InvalidArgument for anything else.
HostPort parse_host_port(const std::string& address);

/// An address as the kernel takes it.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  /// "127.0.0.1:2222", "[::1]:2222".
  std::string to_string() const;
  int port() const;
  /// 127.0.0.0/8 or ::1.
  bool is_loopback() const;
};

enum class Use { kConnect, kListen };

/// The endpoints of "host:port", IPv4 and IPv6, as the system orders them; a name goes through the
/// system's resolver, which may take its time and is reported when it does. Throws InvalidArgument
/// for what is no address, Unavailable for a name that is not known (yet).
std::vector<Endpoint> resolve(const std::string& address, Use use);

}  // namespace muster::net
