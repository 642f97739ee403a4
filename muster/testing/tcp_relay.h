#pragma once

#include <netinet/in.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace muster::testing {

/// Passes bytes on between a client and a server at 127.0.0.1, keeps those that it saw, and may
/// change one or stop in the middle. For one connection.
class TcpRelay {
 public:
  /// `server` is "HOST:PORT".
  explicit TcpRelay(const std::string& server);
  ~TcpRelay();
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  /// Where clients connect.
  const std::string& address() const { return address_; }
  /// Bytes seen in both directions.
  std::string seen();
  /// Flips a bit of the byte that is so far on in what the client sends from here on.
  void flip(std::int64_t byte) { to_server_.flip = byte; }
  /// Lets only this many bytes of what the server sends from here on arrive, and no end of the
  /// stream, as of a server that hangs.
  void hang_server_after(std::int64_t bytes) { to_client_.left = bytes; }

 private:
  struct Direction {
    std::atomic<std::int64_t> flip = -1;
    /// How many bytes may pass; -1 for all.
    std::atomic<std::int64_t> left = -1;
  };

  void run();
  void pass(int from, int to, Direction& direction);

  int listener_;
  sockaddr_in server_{};
  std::string address_;
  std::atomic<int> client_side_ = -1;
  std::atomic<int> server_side_ = -1;
  Direction to_server_;
  Direction to_client_;
  std::mutex mutex_;
  std::string seen_;
  std::jthread thread_;
};

}  // namespace muster::testing
