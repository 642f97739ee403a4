#include "muster/testing/hosts/hosts.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "muster/base/error.h"

namespace muster::testing {
namespace {

constexpr const char* kDevice = "eth0";
constexpr std::size_t kMostHosts = 100;
// Longest time that a packet waits to be sent at the link's rate.
constexpr const char* kQueueTime = "100ms";

std::string address_of_host(int number) { return fmt::format("10.77.0.{}", number); }

void succeed(const Outcome& outcome, const std::string& doing) {
  if (outcome.status != 0) throw Unavailable("{}: {}", doing, outcome.err);
}

// A bucket holds a millisecond, and the longest packet in any case.
std::int64_t bucket_bytes(std::int64_t bits_per_second) {
  return std::max<std::int64_t>(bits_per_second / 8 / 1000, std::int64_t{64} << 10);
}

// False where the kernel refuses it.
bool set(const std::string& name, const std::string& value) {
  std::ofstream file("/proc/sys/net/ipv4/" + name);
  file << value;
  return static_cast<bool>(file.flush());
}

// As docs/operations.md says it for hosts that are far apart.
void set_up_tcp() {
  // Cubic is what Linux begins with. A machine may have been given another one; where that keeps
  // others out of its networks, reno is still there, which like cubic sends at once what it may.
  if (!set("tcp_congestion_control", "cubic")) set("tcp_congestion_control", "reno");
  set("tcp_rmem", "4096 131072 134217728");
  set("tcp_wmem", "4096 16384 134217728");
  set("tcp_slow_start_after_idle", "0");
}

}  // namespace

Hosts::Hosts(std::size_t count, const Link& link) {
  if (count == 0 || count > kMostHosts) {
    throw InvalidArgument("hosts must be from 1 to {}: {}", kMostHosts, count);
  }
  write_bytes(folder_ / "hosts", "");
  for (std::size_t i = 0; i < count; ++i) {
    hosts_.push_back({.address = address_of_host(++addresses_),
                      .space = std::make_unique<NameSpace>(name(i), folder_ / "hosts")});
  }
  write_names();
  if (link.needs_relay()) {
    relay_ = std::make_unique<PacketRelay>(link);
  } else {
    bridge_ = std::make_unique<NameSpace>("bridge", folder_ / "hosts");
    run_ip(*bridge_, "link add bridge0 type bridge\nlink set bridge0 up\n");
  }
  for (std::size_t i = 0; i < count; ++i) {
    relay_ ? add_relayed_device(i) : add_bridged_device(i);
    set_up(i, link);
  }
  if (relay_) relay_->start();
}

Hosts::~Hosts() = default;

std::string Hosts::name(std::size_t host) { return fmt::format("host-{}", host); }

std::unique_ptr<RunningProgram> Hosts::start(std::size_t host, const std::filesystem::path& program,
                                             const Words& arguments,
                                             const ProgramOptions& options) const {
  const Words words = space(host).words();
  return std::make_unique<RunningProgram>(
      words.front(), Words(words.begin() + 1, words.end()) + Words{program.string()} + arguments,
      options);
}

Outcome Hosts::run(std::size_t host, const std::filesystem::path& program, const Words& arguments,
                   const std::vector<std::string>& environment) const {
  return start(host, program, arguments, {.environment = environment})->wait();
}

void Hosts::set_connected(std::size_t host, bool connected) {
  if (!relay_) {
    return run_ip(*bridge_, fmt::format("link set port{} {}\n", host, connected ? "up" : "down"));
  }
  for (std::size_t other = 0; other < hosts_.size(); ++other) {
    relay_->set_passing(host, other, connected);
    relay_->set_passing(other, host, connected);
  }
}

void Hosts::move(std::size_t host) {
  hosts_[host].address = address_of_host(++addresses_);
  run_ip(space(host), fmt::format("addr flush dev {0}\naddr add {1}/24 dev {0}\n", kDevice,
                                  hosts_[host].address));
  if (relay_) relay_->set_address(host, hosts_[host].address);
  write_names();
}

void Hosts::add_relayed_device(std::size_t host) {
  space(host).run([&] { relay_->add_device(kDevice, address(host)); });
}

void Hosts::add_bridged_device(std::size_t host) {
  run_ip(*bridge_, fmt::format("link add port{0} type veth peer name {1} netns {2}\n"
                               "link set port{0} master bridge0 up\n",
                               host, kDevice, space(host).network_path()));
}

void Hosts::set_up(std::size_t host, const Link& link) {
  run_ip(space(host), fmt::format("link set lo up\naddr add {1}/24 dev {0}\nlink set {0} up\n",
                                  kDevice, address(host)));
  space(host).run(set_up_tcp);
  if (link.bits_per_second == 0) return;
  succeed(run(host, "/usr/sbin/tc",
              {"qdisc", "add", "dev", kDevice, "root", "tbf", "rate",
               fmt::format("{}bit", link.bits_per_second), "burst",
               std::to_string(bucket_bytes(link.bits_per_second)), "latency", kQueueTime}),
          "setting the rate of " + name(host));
}

void Hosts::write_names() {
  std::string lines = "127.0.0.1 localhost\n::1 localhost\n";
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    lines += fmt::format("{} {}\n", hosts_[i].address, name(i));
  }
  // In place: it is the file that is mounted.
  write_bytes(folder_ / "hosts", lines);
}

void Hosts::run_ip(const NameSpace& space, const std::string& commands) const {
  write_bytes(folder_ / "commands", commands);
  Words words = space.words() + Words{"/usr/sbin/ip", "-batch", (folder_ / "commands").string()};
  const std::string program = words.front();
  words.erase(words.begin());
  succeed(run_program(program, words), "ip");
}

}  // namespace muster::testing
