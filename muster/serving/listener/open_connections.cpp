#include "muster/serving/listener/open_connections.h"

#include <utility>

#include "muster/serving/listener/client_connection.h"

namespace muster::serving {

bool OpenConnections::add(ClientConnection& connection) {
  const std::lock_guard lock(mutex_);
  return !draining_ && connections_.insert(&connection).second;
}

void OpenConnections::remove(ClientConnection& connection) {
  const std::lock_guard lock(mutex_);
  if (connections_.erase(&connection) > 0) changed_.notify_all();
}

std::size_t OpenConnections::count() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

std::vector<std::shared_ptr<ClientConnection>> OpenConnections::all() const {
  std::vector<std::shared_ptr<ClientConnection>> out;
  const std::lock_guard lock(mutex_);
  out.reserve(connections_.size());
  for (ClientConnection* const one : connections_) {
    // Nothing for one that is being destroyed.
    if (auto held = one->weak_from_this().lock()) out.push_back(std::move(held));
  }
  return out;
}

void OpenConnections::begin_drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

bool OpenConnections::wait_until_empty(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto empty = [&] { return connections_.empty(); };
  if (!deadline.is_never()) return changed_.wait_until(lock, deadline.time(), empty);
  changed_.wait(lock, empty);
  return true;
}

}  // namespace muster::serving
