#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/net/connection.h"

namespace muster::net {

/// What connections for heartbeats say they are for.
inline constexpr const char* kHeartbeatPurpose = "heartbeat";

struct HeartbeatOptions {
  /// A beat is sent this often.
  std::chrono::milliseconds interval{1'000};
  /// A peer that was not heard for longer is given up. Several intervals, so that a busy machine is
  /// no lost one.
  std::chrono::milliseconds limit{10'000};
};

/// How the other side went.
struct HeartbeatEnd {
  enum class Kind {
    kSilent,  ///< It is connected and says nothing: stopped, or hung, or its machine or network is.
    kLost,    ///< Its process or the connection ended without a word.
    kLeft,    ///< It closed in order.
  };
  Kind kind = Kind::kLost;
  /// One sentence that names the task.
  std::string reason{};
};

/// Knows whether the task at the other end is alive. Both ends of a connection that is for nothing
/// else have one. A stopped process's kernel goes on answering TCP, so neither a connection that
/// holds nor keepalive says that anybody is there.
class Heartbeat {
 public:
  using OnEnd = std::function<void(const HeartbeatEnd& end)>;

  /// `on_end` is called at most once, in the heartbeat's own thread, and must not destroy it; the
  /// connection is closed by then. Throws InvalidArgument for a limit that is not longer than the
  /// interval.
  Heartbeat(std::unique_ptr<Connection> connection, OnEnd on_end,
            const HeartbeatOptions& options = {});
  /// Leaves in order.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// How many beats of the other side have come.
  std::uint64_t beats() const;
  /// How long ago the last one came.
  std::chrono::milliseconds age() const;
  const std::string& peer() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::net
