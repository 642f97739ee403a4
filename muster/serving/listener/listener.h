#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/base/wait.h"
#include "muster/serving/listener/client_connection.h"
#include "muster/serving/listener/listening_socket.h"
#include "muster/serving/listener/open_connections.h"
#include "muster/serving/listener/tls_options.h"

struct ssl_ctx_st;

namespace muster::serving {

class EventLoop;

struct ListenerOptions {
  /// Empty: all addresses of this host.
  std::string address{};
  /// 0: any that is free.
  std::uint16_t port = 0;
  /// Also listens on this Unix socket, without TLS; empty: not.
  std::string socket_path{};
  TlsOptions tls{};
  /// The only protocol that is spoken over TLS, by its name in ALPN, which lives as long as the
  /// program; null where clients are not asked.
  const char* tls_protocol = nullptr;
  /// More connections are closed as they come, except for so many, which are told why.
  std::size_t max_connections = 20'000;
  std::size_t told_connections = 0;
  /// How often connections are looked at for what takes too long.
  std::chrono::milliseconds look_interval{250};
};

/// An accepted socket, from which a connection is made.
struct AcceptedSocket {
  /// Does not block.
  OwnedDescriptor descriptor{};
  sockaddr_storage peer{};
  bool is_from_this_host = false;
  /// The limit is passed: the connection is to say so and to end.
  bool is_too_many = false;
  /// Null without TLS.
  std::shared_ptr<ssl_ctx_st> tls{};
  std::shared_ptr<OpenConnections> open{};
};

/// Accepts connections of one protocol, looks after their number, their times, their certificates
/// and their end. Any thread may call it.
class Listener {
 public:
  /// Makes a connection of a socket, in a thread of the loop; null where that fails. It must not
  /// throw.
  using Connect = std::function<std::shared_ptr<ClientConnection>(AcceptedSocket socket)>;

  /// Listens from now on; the loop outlives it. Throws Unavailable when the port is taken,
  /// InvalidArgument for invalid certificates and for invalid addresses.
  Listener(EventLoop& loop, ListenerOptions options, Connect connect);
  /// Closes all connections, and waits until nothing holds one.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::uint16_t port() const { return port_; }
  std::size_t connections() const;

  /// For connections from now on. Throws InvalidArgument for invalid certificates,
  /// FailedPrecondition when it was started without any.
  void set_certificates(const TlsOptions& options);

  /// Takes no more connections, and has those there are end. Returns at once.
  void begin_drain();
  /// The same, and waits for the end of all. False when some are left at the end of the time.
  bool drain(const Deadline& deadline);
  /// Closes those that are left.
  void close_all();

 private:
  struct State;
  struct Gone;

  std::shared_ptr<Gone> gone_;
  std::shared_ptr<State> state_;
  std::uint16_t port_ = 0;
};

}  // namespace muster::serving
