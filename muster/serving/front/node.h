#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace muster::serving {

/// Where a node answers requests over HTTP.
struct NodeAddress {
  /// HOST:PORT.
  std::string text{};
  sockaddr_storage address{};
  socklen_t length = 0;
};

/// The address of a port of this host.
NodeAddress loopback_address(std::uint16_t port);

/// A server behind the front, as requests see it. Any thread may use it.
struct Node {
  using Clock = std::chrono::steady_clock;

  Node(int its_number, NodeAddress its_address)
      : number(its_number), address(std::move(its_address)) {}

  const int number;
  const NodeAddress address;
  std::atomic<std::size_t> in_flight{0};
  /// When it last answered a request, in ticks of the clock.
  std::atomic<Clock::rep> last_answer{Clock::now().time_since_epoch().count()};
  /// Requests in a row that it failed and another node answered, or whose connection it lost.
  std::atomic<int> strikes{0};
  /// Requests in flight on it are failed, and it gets no more.
  std::atomic<bool> is_abandoned{false};

  void note_answer() { last_answer = Clock::now().time_since_epoch().count(); }
  Clock::duration since_answer() const {
    return Clock::now().time_since_epoch() - Clock::duration(last_answer.load());
  }
};

}  // namespace muster::serving
