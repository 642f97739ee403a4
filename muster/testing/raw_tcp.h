#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::testing {

/// One end of a plain TCP connection on loopback, for tests that speak to a server in its own bytes
/// or in wrong ones. Reads fail after a minute, so that a test of a server that hangs fails too.
class RawTcp {
 public:
  /// Connects to "127.0.0.1:port".
  explicit RawTcp(const std::string& address);
  /// Owns a connected socket.
  explicit RawTcp(int descriptor);
  ~RawTcp();
  RawTcp(RawTcp&& other) noexcept;
  RawTcp& operator=(RawTcp&&) = delete;

  int descriptor() const { return descriptor_; }
  /// False when the other side is gone.
  bool send(std::string_view bytes);
  /// Exactly this many bytes, or fewer at the end of the stream.
  std::string read(std::size_t size);
  std::string read_to_end();

 private:
  int descriptor_ = -1;
};

/// Listens on a free port of loopback.
class RawTcpServer {
 public:
  RawTcpServer();
  ~RawTcpServer();
  RawTcpServer(const RawTcpServer&) = delete;
  RawTcpServer& operator=(const RawTcpServer&) = delete;

  const std::string& address() const { return address_; }
  std::uint16_t port() const { return port_; }
  RawTcp accept();

 private:
  int descriptor_ = -1;
  std::uint16_t port_ = 0;
  std::string address_;
};

}  // namespace muster::testing
