#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "muster/serving/listener/listening_socket.h"

namespace muster::serving {

/// Address of a server, looked up once.
struct ServerAddress {
  /// HOST:PORT, as it was given.
  std::string text{};
  sockaddr_storage address{};
  socklen_t length = 0;
};

/// Throws InvalidArgument for what is not HOST:PORT, Unavailable for a host that is not found.
ServerAddress resolve_server(const std::string& text);

/// A connection that never blocks. Moved, not copied; closed at the end.
class ClientSocket {
 public:
  ClientSocket() = default;
  /// Begins to connect: writable, the socket is connected or has a failure(). Throws the Error of
  /// errno where not even that is possible.
  explicit ClientSocket(const ServerAddress& server);

  int descriptor() const { return descriptor_.number(); }
  bool is_open() const { return descriptor() >= 0; }
  /// errno of the connection, 0 for none.
  int failure() const;
  /// Bytes that the socket has taken; 0 when it is full. -1: the connection is lost.
  long send(std::string_view bytes) const;
  /// Appends what has come: true while the connection lives.
  bool receive(std::string& out) const;

 private:
  OwnedDescriptor descriptor_{};
};

}  // namespace muster::serving
