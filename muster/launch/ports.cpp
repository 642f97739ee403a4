#include "muster/launch/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <random>
#include <string>

#include "muster/base/error.h"

namespace muster::launch {
namespace {

// Bound sockets that are closed together.
class Probes {
 public:
  Probes() = default;
  ~Probes() {
    for (const int probe : sockets_) ::close(probe);
  }
  Probes(const Probes&) = delete;
  Probes& operator=(const Probes&) = delete;

  // The port that was bound, any for 0; nothing if somebody has it. On all interfaces, since a
  // server may listen on any of them.
  std::optional<std::uint16_t> bind(std::uint16_t port) {
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0) throw_errno(errno, "making a socket to look for a free port");
    sockets_.push_back(probe);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(port);
    socklen_t size = sizeof(address);
    if (::bind(probe, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
      if (errno == EADDRINUSE || errno == EACCES) return std::nullopt;
      throw_errno(errno, "looking for a free port");
    }
    if (::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw_errno(errno, "looking for a free port");
    }
    return ntohs(address.sin_port);
  }

 private:
  std::vector<int> sockets_;
};

// Below the ports that Linux gives to connections by itself: one of those could be gone when a task
// wants it, or wants it back after a restart.
constexpr std::uint16_t kFirstPort = 10'000;
std::uint16_t first_port_of_connections() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  std::uint16_t first = 0;
  return file >> first ? first : std::uint16_t{32'768};
}

// Any, so that two who look at the same time hardly take the same.
std::uint16_t random_port(std::mt19937& random) {
  const std::uint16_t end = first_port_of_connections();
  if (end <= kFirstPort + 1000) return 0;
  return static_cast<std::uint16_t>(
      std::uniform_int_distribution<int>(kFirstPort, end - 1)(random));
}

std::optional<std::uint16_t> to_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

}  // namespace

PortRange parse_port_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = to_port(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : to_port(text.substr(dash + 1));
  if (!first || !last || *last < *first) {
    throw InvalidArgument("a range of ports is FIRST-LAST, each from 1 to 65535: {}", text);
  }
  return {*first, *last};
}

std::vector<std::uint16_t> free_ports(std::size_t count, const std::optional<PortRange>& range) {
  Probes probes;
  std::vector<std::uint16_t> ports;
  if (!range) {
    std::mt19937 random{std::random_device{}()};
    while (ports.size() < count) {
      if (const auto port = probes.bind(random_port(random))) ports.push_back(*port);
    }
    return ports;
  }
  for (unsigned port = range->first; port <= range->last && ports.size() < count; ++port) {
    if (probes.bind(static_cast<std::uint16_t>(port))) {
      ports.push_back(static_cast<std::uint16_t>(port));
    }
  }
  if (ports.size() < count) {
    throw ResourceExhausted(
        "only {} of the {} ports needed are free from {} to {}; widen the range", ports.size(),
        count, range->first, range->last);
  }
  return ports;
}

}  // namespace muster::launch
