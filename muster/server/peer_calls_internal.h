#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace muster::server {

/// Calls that gRPC has not done with yet, by the connection that they came from. A call whose
/// stream its client has reset is no longer counted as one of the connection's streams, but is kept
/// until gRPC's transport has come to it, and a transport that is kept busy with new ones does not:
/// about 13 KB per call. So a connection with more of them than a client can have that keeps to the
/// limit of streams is reset. Any thread may call.
class PeerCalls {
 public:
  explicit PeerCalls(std::size_t most_of_one) : most_of_one_(most_of_one) {}

  /// The port of this server: connections of others are left alone.
  void set_port(std::uint16_t port);
  /// `peer` as gRPC names it, "ipv4:127.0.0.1:50000"; those of Unix sockets are not counted.
  void begin(const std::string& peer);
  void end(const std::string& peer);
  /// Connections that have calls.
  std::size_t size() const;

 private:
  std::size_t most_of_one_;
  mutable std::mutex mutex_{};
  std::uint16_t port_ = 0;
  std::map<std::string, std::size_t, std::less<>> calls_{};
};

/// One of them, as long as it lives.
class CountedCall {
 public:
  CountedCall(PeerCalls& calls, std::string peer) : calls_(calls), peer_(std::move(peer)) {
    calls_.begin(peer_);
  }
  ~CountedCall() { calls_.end(peer_); }
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;

 private:
  PeerCalls& calls_;
  const std::string peer_;
};

/// Resets the TCP connections of this process between its `port` and `peer`: what has come and was
/// not read yet is dropped, and whoever reads or writes it next has an error. How many there were.
std::size_t reset_connections(std::string_view peer, std::uint16_t port);

}  // namespace muster::server
