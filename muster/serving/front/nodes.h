#pragma once

#include <string>

#include "muster/base/wait.h"
#include "muster/serving/front/node_history.h"

namespace muster::serving {

/// Looks after the nodes of a front: which of them get requests, and what becomes of those that
/// fail. One thread at a time may call what is not said to be for any.
class Nodes {
 public:
  virtual ~Nodes() = default;

  /// Waits until the nodes that are to be there at first answer. Throws Unavailable or
  /// DeadlineExceeded, which say why one does not.
  virtual void start() = 0;
  /// Ends its part of the nodes by the deadline.
  virtual void stop(const Deadline& deadline) = 0;
  /// Sends a signal to every process that it has started. Any thread may call it.
  virtual void send(int signal) = 0;
  /// The metrics of all nodes, of a path, as one page. Any thread may call it.
  virtual std::string metrics(const std::string& path) = 0;
  /// Nodes as they are, and their last day. Any thread may call it.
  virtual const NodeHistory& history() const = 0;
};

}  // namespace muster::serving
