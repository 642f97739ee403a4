#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

namespace muster::serving {

/// The process of a node. Belongs to the thread that started it.
class NodeProcess {
 public:
  /// Kills it where it runs, and waits for its end.
  virtual ~NodeProcess() = default;

  virtual pid_t process() const = 0;
  /// Its standard output comes out of here: a line `ports rest=N grpc=N` when it answers requests.
  /// The end of this stream is the end of the process. Does not block.
  virtual int output() const = 0;
  virtual void send(int signal) = 0;
  /// How it ended, as in "was killed by SIGKILL"; nothing while it runs.
  virtual std::optional<std::string> ended() = 0;
};

/// Starts nodes: what the keeper needs of a host.
class NodeStarter {
 public:
  virtual ~NodeStarter() = default;
  /// Returns when the process has begun, long before it answers. Throws what keeps it from that.
  virtual std::unique_ptr<NodeProcess> start(int number) = 0;
};

}  // namespace muster::serving
