#include "muster/testing/hosts/packet_relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "muster/base/error.h"

namespace muster::testing {
namespace {

// Before each packet: what its checksum and its pieces still need, which the receiver is told.
constexpr std::size_t kOffloadHeaderBytes = 10;
constexpr std::size_t kDestinationOffset = 16;
constexpr std::size_t kIpHeaderBytes = 20;
constexpr std::size_t kMostPacketBytes = 65536 + kOffloadHeaderBytes;
// 50 ms of 10 Gbit/s; a router would drop what comes then, too.
constexpr std::size_t kMostQueuedBytes = std::size_t{64} << 20;
constexpr int kPacketsAtOnce = 64;

std::uint32_t number_of(const std::string& address) {
  in_addr parsed{};
  if (::inet_pton(AF_INET, address.c_str(), &parsed) != 1) {
    throw InvalidArgument("not an IPv4 address: {}", address);
  }
  return parsed.s_addr;
}

// Nothing for a packet of another kind, such as those by which IPv6 looks for neighbours.
std::optional<std::uint32_t> destination_of(std::string_view bytes) {
  if (bytes.size() < kOffloadHeaderBytes + kIpHeaderBytes) return std::nullopt;
  const std::string_view packet = bytes.substr(kOffloadHeaderBytes);
  if (static_cast<unsigned char>(packet[0]) >> 4 != 4) return std::nullopt;
  std::uint32_t address = 0;
  std::memcpy(&address, packet.data() + kDestinationOffset, sizeof address);
  return address;
}

}  // namespace

PacketRelay::PacketRelay(const Link& link)
    : link_(link),
      random_(link.seed),
      buffer_(kMostPacketBytes),
      waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (waker_ < 0) throw_errno(errno, "making an eventfd");
}

PacketRelay::~PacketRelay() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(waker_, &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  ::close(waker_);
}

void PacketRelay::add_device(const std::string& name, const std::string& address) {
  auto device = std::make_unique<OpenFile>("/dev/net/tun", O_RDWR | O_NONBLOCK);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (::ioctl(device->get(), TUNSETIFF, &request) != 0) {
    throw_errno(errno, "making the device " + name);
  }
  // Long packets that are still to be cut cost less; of those that may be lost each counts.
  if (link_.loss == 0 && ::ioctl(device->get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) {
    throw_errno(errno, "setting up the device " + name);
  }
  host_at_[number_of(address)] = devices_.size();
  devices_.push_back(std::move(device));
}

void PacketRelay::start() {
  ways_.resize(devices_.size() * devices_.size());
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void PacketRelay::set_address(std::size_t host, const std::string& address) {
  const std::lock_guard lock(mutex_);
  std::erase_if(host_at_, [&](const auto& entry) { return entry.second == host; });
  host_at_[number_of(address)] = host;
}

void PacketRelay::set_passing(std::size_t from, std::size_t to, bool passes) {
  const std::lock_guard lock(mutex_);
  Way& one = way(from, to);
  one.passes = passes;
  if (passes) return;
  // Packets on their way do not arrive either.
  lost_ += static_cast<std::int64_t>(one.packets.size());
  one.packets.clear();
  one.queued_bytes = 0;
}

std::int64_t PacketRelay::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void PacketRelay::run(const std::stop_token& stop) {
  // A packet is not to be late by more than a few microseconds.
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
  std::vector<pollfd> waits;
  for (const auto& device : devices_)
    waits.push_back({.fd = device->get(), .events = POLLIN, .revents = 0});
  waits.push_back({.fd = waker_, .events = POLLIN, .revents = 0});
  while (!stop.stop_requested()) {
    const auto left = std::max<Clock::duration>(next_due() - Clock::now(), Clock::duration(0));
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec timeout{.tv_sec = whole.count(), .tv_nsec = (left - whole).count()};
    ::ppoll(waits.data(), waits.size(), &timeout, nullptr);
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if ((waits[i].revents & POLLIN) != 0) take(i, now);
    }
    send_due(Clock::now());
  }
}

void PacketRelay::take(std::size_t from, Clock::time_point now) {
  for (int i = 0; i < kPacketsAtOnce; ++i) {
    const ssize_t count = ::read(devices_[from]->get(), buffer_.data(), buffer_.size());
    if (count <= 0) return;
    const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(count));
    const auto destination = destination_of(bytes);
    if (!destination) continue;
    const auto host = host_at_.find(*destination);
    if (host == host_at_.end()) continue;
    Way& one = way(from, host->second);
    if (!one.passes || one.queued_bytes + bytes.size() > kMostQueuedBytes ||
        (link_.loss > 0 && random_.coin(link_.loss))) {
      ++lost_;
      continue;
    }
    auto due = now + link_.delay;
    if (link_.jitter.count() > 0) {
      due += std::chrono::microseconds(
          random_.below(static_cast<std::uint64_t>(link_.jitter.count()) + 1));
    }
    if (!one.packets.empty()) due = std::max(due, one.packets.back().due);
    one.packets.push_back({due, std::string(bytes)});
    one.queued_bytes += bytes.size();
  }
}

void PacketRelay::send_due(Clock::time_point now) {
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    Way& one = ways_[i];
    while (!one.packets.empty() && one.packets.front().due <= now) {
      const std::string& bytes = one.packets.front().bytes;
      // A device that is down refuses it, as a cable that is not plugged in would.
      if (::write(devices_[i % devices_.size()]->get(), bytes.data(), bytes.size()) < 0) ++lost_;
      one.queued_bytes -= bytes.size();
      one.packets.pop_front();
    }
  }
}

PacketRelay::Clock::time_point PacketRelay::next_due() const {
  const std::lock_guard lock(mutex_);
  auto next = Clock::now() + std::chrono::seconds(1);
  for (const Way& one : ways_) {
    if (!one.packets.empty()) next = std::min(next, one.packets.front().due);
  }
  return next;
}

}  // namespace muster::testing
