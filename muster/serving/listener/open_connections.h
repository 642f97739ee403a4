#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "muster/base/wait.h"

namespace muster::serving {

class ClientConnection;

/// The open connections of a server. Any thread may call it.
class OpenConnections {
 public:
  /// False when the server stops: the connection is not open then.
  bool add(ClientConnection& connection);
  /// Nothing for a connection that is not open.
  void remove(ClientConnection& connection);

  std::size_t count() const;
  std::vector<std::shared_ptr<ClientConnection>> all() const;

  /// No connection is added from now on.
  void begin_drain();
  bool is_draining() const { return draining_; }
  /// False when some are left at the end of the time.
  bool wait_until_empty(const Deadline& deadline);

 private:
  mutable std::mutex mutex_{};
  std::condition_variable changed_{};
  std::set<ClientConnection*> connections_{};
  std::atomic<bool> draining_{false};
};

}  // namespace muster::serving
