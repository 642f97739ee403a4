#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "muster/serving/listener/open_connections.h"

namespace muster::serving {

/// A connection of a client, as the listener sees it that has accepted it. Whatever is under way
/// with it holds it. Any thread may call it.
class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ClientConnection(std::shared_ptr<OpenConnections> open) : open_(std::move(open)) {}
  virtual ~ClientConnection() { leave(); }
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  /// Begins to read; called once.
  virtual void start() = 0;
  /// Ends what takes too long; called now and then.
  virtual void look(Clock::time_point now) = 0;
  /// The server stops: a connection without a request ends now, another one after its answer.
  virtual void drain() = 0;
  /// Ends at once: what is under way fails from now on.
  virtual void close() = 0;

 protected:
  /// Whether the server stops.
  bool is_draining() const { return open_->is_draining(); }
  /// Is open no longer.
  void leave() { open_->remove(*this); }

 private:
  // Goes after the socket, which is in a class that derives: who waits for the end of this one may
  // end the loop next.
  const std::shared_ptr<OpenConnections> open_;
};

}  // namespace muster::serving
