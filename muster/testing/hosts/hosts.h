#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/testing/hosts/link.h"
#include "muster/testing/hosts/name_space.h"
#include "muster/testing/hosts/packet_relay.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster::testing {

/// Hosts on this machine, each with an address of its own, a name ("host-0") that all of them know,
/// and nothing between them but the link. They share disks and processors. Needs root: see
/// NameSpace::refusal(). One thread uses it at a time.
class Hosts {
 public:
  explicit Hosts(std::size_t count, const Link& link = {});
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  std::size_t size() const { return hosts_.size(); }
  static std::string name(std::size_t host);
  const std::string& address(std::size_t host) const { return hosts_[host].address; }
  const NameSpace& space(std::size_t host) const { return *hosts_[host].space; }

  /// Starts a program there.
  std::unique_ptr<RunningProgram> start(std::size_t host, const std::filesystem::path& program,
                                        const Words& arguments,
                                        const ProgramOptions& options = {}) const;
  /// Runs a program there to its end.
  Outcome run(std::size_t host, const std::filesystem::path& program, const Words& arguments,
              const std::vector<std::string>& environment = {}) const;

  /// Takes the host off the network, whose packets are lost then, or puts it back.
  void set_connected(std::size_t host, bool connected);
  /// Gives the host another address, to which its name leads from now on.
  void move(std::size_t host);
  /// Packets that were lost on the way; 0 where no link delays or loses any.
  std::int64_t lost() const { return relay_ ? relay_->lost() : 0; }

 private:
  struct Host {
    std::string address;
    std::unique_ptr<NameSpace> space;
  };

  void add_relayed_device(std::size_t host);
  void add_bridged_device(std::size_t host);
  void set_up(std::size_t host, const Link& link);
  void write_names();
  /// Runs commands of ip(8), one a line, in the network of a host.
  void run_ip(const NameSpace& space, const std::string& commands) const;

  TempDir folder_;
  std::vector<Host> hosts_;
  /// Where hosts without a relay are plugged in.
  std::unique_ptr<NameSpace> bridge_;
  std::unique_ptr<PacketRelay> relay_;
  int addresses_ = 0;
};

}  // namespace muster::testing
