#include "muster/orchestration/launch/ports.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <deque>
#include <fstream>
#include <random>
#include <string>

#include "muster/base/error.h"
#include "muster/orchestration/process/descriptor.h"

namespace muster::launch {
namespace {

// Bound sockets that are closed together.
class Probes {
 public:
  // The port that was bound, any for 0; nothing if it is in use. On all interfaces, since a
  // server may listen on any of them.
  std::optional<std::uint16_t> bind(std::uint16_t port) {
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0) throw_errno(errno, "making a socket to look for a free port");
    sockets_.emplace_back(probe);
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
  std::deque<process::Descriptor> sockets_;
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

/// One socket for each port, whose name says so. Names that begin with a zero byte are no files:
/// they are those of a network namespace, as ports are, and go with the process.
class ReservedPorts::Reservations {
 public:
  /// Reserves the port; false if another process has it.
  bool take(std::uint16_t port) {
    const int holder = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (holder < 0) throw_errno(errno, "making a socket to reserve a port");
    holders_.emplace_back(holder);
    const std::string name = fmt::format("muster-port-{}", port);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (::bind(holder, reinterpret_cast<const sockaddr*>(&address), size) == 0) return true;
    if (errno != EADDRINUSE) throw_errno(errno, fmt::format("reserving port {}", port));
    holders_.pop_back();
    return false;
  }

 private:
  std::deque<process::Descriptor> holders_;
};

ReservedPorts::ReservedPorts(std::size_t count, const std::optional<PortRange>& range)
    : reservations_(std::make_shared<Reservations>()) {
  Probes probes;
  const auto try_port = [&](std::uint16_t wanted) {
    const auto port = probes.bind(wanted);
    if (port && reservations_->take(*port)) numbers_.push_back(*port);
  };
  if (!range) {
    std::mt19937 random{std::random_device{}()};
    while (numbers_.size() < count) try_port(random_port(random));
    return;
  }
  for (unsigned port = range->first; port <= range->last && numbers_.size() < count; ++port) {
    try_port(static_cast<std::uint16_t>(port));
  }
  if (numbers_.size() < count) {
    throw ResourceExhausted(
        "only {} of the {} ports needed are free from {} to {}; widen the range", numbers_.size(),
        count, range->first, range->last);
  }
}

}  // namespace muster::launch
