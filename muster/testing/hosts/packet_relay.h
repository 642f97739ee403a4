#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/open_file.h"
#include "muster/base/random.h"
#include "muster/testing/hosts/link.h"

namespace muster::testing {

/// Carries IPv4 packets between hosts, each of which has a TUN device, late or not at all: what
/// `tc netem` does, where the kernel may be without it. Packets that a host sends to itself do not
/// come here.
class PacketRelay {
 public:
  explicit PacketRelay(const Link& link);
  ~PacketRelay();
  PacketRelay(const PacketRelay&) = delete;
  PacketRelay& operator=(const PacketRelay&) = delete;

  /// Makes the device in the network of the calling thread. All are added before start().
  void add_device(const std::string& name, const std::string& address);
  void start();
  /// The host has another address from now on.
  void set_address(std::size_t host, const std::string& address);
  /// Whether packets pass from one host to another.
  void set_passing(std::size_t from, std::size_t to, bool passes);
  /// Packets that were lost, because the link loses some or does not let them pass.
  std::int64_t lost() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Packet {
    Clock::time_point due;
    std::string bytes;
  };
  /// One way from one host to another.
  struct Way {
    bool passes = true;
    std::size_t queued_bytes = 0;
    std::deque<Packet> packets{};
  };

  void run(const std::stop_token& stop);
  void take(std::size_t from, Clock::time_point now);
  void send_due(Clock::time_point now);
  Clock::time_point next_due() const;
  Way& way(std::size_t from, std::size_t to) { return ways_[from * devices_.size() + to]; }

  const Link link_;
  Random random_;
  std::vector<std::unique_ptr<OpenFile>> devices_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::size_t> host_at_;
  std::vector<Way> ways_;
  std::int64_t lost_ = 0;
  std::vector<char> buffer_;
  int waker_ = -1;
  std::jthread thread_;
};

}  // namespace muster::testing
