#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "muster/base/wait.h"
#include "muster/serving/listener/listening_socket.h"
#include "muster/serving/load/client_session.h"
#include "muster/serving/load/client_socket.h"

namespace muster::serving {

/// The connections of one thread to a server. One that is lost is opened again.
class ConnectionPool {
 public:
  using Clock = Deadline::Clock;

  struct Options {
    const ServerAddress* server = nullptr;
    bool over_grpc = false;
    std::size_t connections = 1;
    ClientSession::Options session{};
    ClientSession::OnAnswer on_answer{};
    /// There is no connection, and none can be opened.
    std::function<void(const std::string& why)> on_no_connection{};
  };

  explicit ConnectionPool(Options options);
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  /// Opens all of them, unless a stop is asked for first. Throws Unavailable when that fails.
  void open(const Deadline& deadline, const std::stop_token& stop);
  /// One that can send a request; nothing when all are busy.
  std::optional<std::size_t> next_free();
  void send(std::size_t connection, std::uint64_t tag, const PreparedRequest& request);
  void cancel(std::size_t connection, std::uint64_t tag);
  /// Writes what was sent, then waits for sockets until a time, and handles what has come.
  void wait(Clock::time_point until);
  /// Ends a wait of this or the next call. Any thread may call it.
  void wake();

 private:
  struct Connection {
    std::size_t number = 0;
    ClientSocket socket{};
    std::unique_ptr<ClientSession> session{};
    std::string output{};
    bool is_connecting = false;
    bool waits_for_socket = false;
    bool is_in_free = false;
    bool is_in_unsent = false;
    bool has_received = false;
    Clock::time_point opened_at{};
    /// Nothing while there is a connection.
    std::optional<Clock::time_point> connect_at{};
  };

  void connect(Connection& connection);
  void connect_lost();
  void handle(Connection& connection, std::uint32_t events);
  void finish_connecting(Connection& connection);
  void receive(Connection& connection);
  void lose(Connection& connection, const std::string& why);
  void retry_later(Connection& connection, const std::string& why);
  void flush(Connection& connection);
  void flush_all();
  void watch(const Connection& connection, int operation) const;
  void add_free(Connection& connection);
  void add_unsent(Connection& connection);
  int wait_for_events(Clock::time_point until);

  const Options options_;
  OwnedDescriptor epoll_;
  OwnedDescriptor waker_;
  bool has_fine_waits_ = true;
  std::vector<std::unique_ptr<Connection>> connections_{};
  std::deque<std::size_t> free_{};
  std::vector<std::size_t> unsent_{};
  std::vector<std::size_t> lost_{};
  std::size_t open_ = 0;
  std::string input_{};
  std::string last_failure_{};
};

}  // namespace muster::serving
