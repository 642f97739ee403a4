#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/platform/net/connection.h"

namespace muster::net {

/// Takes connections from the tasks of this run. Strangers (HTTP, noise, silence, another run,
/// another secret, a task that the cluster does not have) are told or dropped within
/// `handshake_timeout`, logged once a kind, and share one thread and a bounded amount of memory.
class Listener {
 public:
  using OnConnection = std::function<void(std::unique_ptr<Connection>)>;

  /// Listens at "host:port" at once; port 0 takes a free one. `on_connection` is called for each
  /// peer that has proved itself, in a thread of its own; what it throws is logged.
  /// Throws Unavailable for a port in use, FailedPrecondition for an address of another machine.
  Listener(const std::string& address, Identity self, OnConnection on_connection,
           const ConnectionOptions& options = {});
  /// Closes, and waits until every running `on_connection` has returned.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Where it listens, with the port that was taken: what peers connect to.
  const std::string& address() const;

  /// Takes no more connections, and closes those that it took, except for the ones detached. Any
  /// thread.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether an address "host:port" is one of this machine that no other machine reaches. A name goes
/// through the system's resolver; one that is not known is not.
bool is_loopback(const std::string& address);

}  // namespace muster::net
