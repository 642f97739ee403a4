#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "muster/base/wait.h"
#include "muster/platform/net/buffer.h"
#include "muster/platform/net/identity.h"
#include "muster/platform/net/waker.h"

namespace muster::net {

/// One message: a type that the two tasks agree on, a header (names, numbers) and a body (tensors).
struct Frame {
  std::uint32_t type = 0;
  std::string header{};
  Buffer body{};
};

/// A message whose body has not been read yet.
struct FrameInfo {
  std::uint32_t type = 0;
  std::string header{};
  std::uint64_t body_bytes = 0;
};

/// Types from here on are the transport's own.
inline constexpr std::uint32_t kReservedTypes = 0xffff'ff00;

/// A frame with a larger header or body is refused before memory is taken.
struct FrameLimits {
  std::uint64_t max_header = std::uint64_t{16} << 20;
  std::uint64_t max_body = std::uint64_t{1} << 30;
};

struct ConnectionOptions {
  /// Limits of all frames.
  FrameLimits limits{};
  /// In their place, for each type of its own.
  std::function<FrameLimits(std::uint32_t type)> limits_by_type{};
  /// A frame that has begun to arrive goes on arriving: after so long without a byte of it the
  /// connection is given up.
  std::chrono::milliseconds frame_stall{60'000};
  /// How long the two sides may take to prove themselves.
  std::chrono::milliseconds handshake_timeout{5'000};
  /// connect(): the task that is to be at the address; another one is refused by name. Empty: any.
  std::string peer_task{};
  /// Listener: who is admitted of those who have proved themselves. Empty: all.
  Admission admits{};
  /// connect(): ends the tries early, with Cancelled.
  std::stop_token stop{};
};

/// One TCP stream between two tasks that have proved themselves to each other. Any thread may send
/// and close; one thread at a time receives.
class Connection {
 public:
  /// Connects to "host:port", and tries again every 50 to 200 ms while no task answers there, until
  /// the deadline; a task of another run with the same secret is waited for too, as one that an
  /// earlier run left behind goes away. `purpose` tells the other side what the connection is for.
  /// Throws Unavailable when no task could be reached, FailedPrecondition for another run, another
  /// task, a cluster without this task or something that is no muster, PermissionDenied for another
  /// secret. The error names the address, the task and the last reason.
  static std::unique_ptr<Connection> connect(const std::string& address, const Identity& self,
                                             std::string_view purpose, const Deadline& deadline,
                                             const ConnectionOptions& options = {});
  /// Closes.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Sends one frame whose body is the pieces one after another; they are not copied. Frames of
  /// several threads do not mix. Throws Unavailable when the peer is gone, Cancelled after close(),
  /// and DeadlineExceeded; when part of the frame was sent by then, the connection is of no more
  /// use and says so from then on.
  void send(std::uint32_t type, std::string_view header,
            std::span<const std::span<const std::byte>> body, const Deadline& deadline);
  void send(std::uint32_t type, std::string_view header, std::span<const std::byte> body,
            const Deadline& deadline);
  void send(std::uint32_t type, std::string_view header, const Deadline& deadline);
  /// Sets the function that a sending thread calls before it waits for a peer that does not take
  /// all at once: two peers that send each other more than sockets keep get on only while a thread
  /// receives. Set before the first send.
  void before_waiting_to_send(std::function<void()> call);

  /// The next frame; nothing when the peer closed in order or this side called close() (inside a
  /// frame, that throws Cancelled). Throws Unavailable when the peer was lost, DataLoss for bytes
  /// that are no frame, ResourceExhausted for a frame that is too large, and DeadlineExceeded when
  /// no frame has begun to arrive by the deadline, after which one may call it again.
  /// A wait without a deadline is that of a thread that only listens, and is not reported.
  std::optional<Frame> receive(const Deadline& deadline);

  /// The same in two steps, for a body that goes straight to where it belongs: first type, header
  /// and size, then the body, in as many pieces as one likes. What is not read of it is dropped by
  /// the next receive.
  std::optional<FrameInfo> receive_header(const Deadline& deadline);
  /// Reads the next `to.size()` bytes of the body. Throws InvalidArgument when it has fewer left.
  void receive_body(std::span<std::byte> to);

  /// Waits until something of the next frame or the end of the stream has come; false at the
  /// deadline. By the thread that receives.
  bool wait_readable(const Deadline& deadline);
  /// Whether the next frame has begun to arrive with the one before. By the thread that receives.
  bool has_begun() const;
  /// The same, until the waker is set (false). A wait that lasts is reported with the reason. Not
  /// of an encrypted connection, nor are the two below: what has come of it may be no part of a
  /// frame, or be here already.
  bool wait_readable(const Waker& waker, const WaitReason& reason);
  /// Waits until there are unreceived bytes, or the end of the stream. By any thread, also
  /// while another receives.
  void wait_for_bytes();
  /// Waits until the stream has ended, whatever has come before that, or the waker is set.
  /// Sleeps through bytes that come. By any thread, also while another receives.
  void wait_for_end(const Waker& waker);

  /// Tells the peer, and wakes those who wait in send and receive. What was sent before arrives,
  /// unless the peer sends at the same time: who has to be sure waits for an answer.
  void close() noexcept;
  /// Lets it outlive the listener that took it, which closes it otherwise.
  void detach() noexcept;

  /// Time of a message to the peer and back, as the system has last seen it; nothing where it does
  /// not tell. Any thread.
  std::optional<std::chrono::microseconds> round_trip() const;
  /// For messages: "worker:1 at 127.0.0.1:2222".
  const std::string& peer() const;
  const std::string& peer_task() const { return peer_task_; }
  /// Purpose of the connection, as the side that connected gave it.
  const std::string& purpose() const { return purpose_; }

 private:
  friend class Listener;
  struct State;
  Connection(std::shared_ptr<State> state, std::string peer_task, std::string purpose);

  std::shared_ptr<State> state_;
  std::string peer_task_;
  std::string purpose_;
};

}  // namespace muster::net
