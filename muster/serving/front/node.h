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
  /// The newest value makes one part of this many of an average.
  static constexpr Clock::rep kLatencyShare = 4;

  Node(int its_number, NodeAddress its_address)
      : number(its_number), address(std::move(its_address)) {}

  const int number;
  const NodeAddress address;
  std::atomic<std::size_t> in_flight{0};
  /// When it last answered a request, in ticks of the clock.
  std::atomic<Clock::rep> last_answer{Clock::now().time_since_epoch().count()};
  /// How long its predictions take, in ticks: an average over the last few.
  std::atomic<Clock::rep> latency{0};
  /// Requests in a row that it failed and another node answered, or whose connection it lost.
  std::atomic<int> strikes{0};
  /// Requests in flight on it are failed, and it gets no more.
  std::atomic<bool> is_abandoned{false};

  void note_answer() { last_answer = Clock::now().time_since_epoch().count(); }
  /// A prediction has taken so long.
  void note_latency(Clock::duration taken) {
    // Some threads may write at the same time, and one of them is lost: it is an average.
    const Clock::rep before = latency;
    latency = before == 0 ? taken.count() : before + (taken.count() - before) / kLatencyShare;
  }
  /// It has had no prediction for a while: how slow it was matters less and less.
  void forget_latency() { latency = latency / 2; }
  Clock::time_point answered_at() const {
    return Clock::time_point(Clock::duration(last_answer.load()));
  }
  Clock::duration since_answer() const { return Clock::now() - answered_at(); }
};

}  // namespace muster::serving
