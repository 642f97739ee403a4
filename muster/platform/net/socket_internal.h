#pragma once

#include <poll.h>
#include <sys/uio.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "muster/base/wait.h"
#include "muster/platform/net/address_internal.h"

namespace muster::net {

/// Result of one send or receive call.
struct Moved {
  std::size_t bytes = 0;
  /// The errno of a call that failed; EAGAIN where it would have to wait.
  int error = 0;

  bool would_block() const { return error == EAGAIN || error == EWOULDBLOCK; }
};

/// A wait shorter than this is not reported, which would cost more than it tells.
inline constexpr std::chrono::milliseconds kShortWait{100};

/// A descriptor of the kernel's and its owner. No call blocks but those that say so; none raises
/// SIGPIPE.
class Socket {
 public:
  /// Owns the descriptor, and makes it non-blocking.
  explicit Socket(int descriptor);
  virtual ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int descriptor() const { return descriptor_; }

  /// Writes of the pieces what fits.
  virtual Moved send(std::span<const iovec> pieces);
  /// Reads what is there; no bytes and no error mean that the peer has ended its stream.
  virtual Moved receive(std::span<const iovec> pieces);
  /// The same, but wait for kShortWait at most until there is room for all or something has come:
  /// one system call where receive(), wait() and receive() are three.
  virtual Moved send_soon(std::span<const iovec> pieces);
  virtual Moved receive_soon(std::span<const iovec> pieces);
  /// Makes them wait.
  void allow_waiting();

  /// Waits until `events` (of poll) or an end are there; false at the deadline. A wait that lasts
  /// is reported with the reason.
  virtual bool wait(short events, const Deadline& deadline, const WaitReason& reason);

  /// Whether a part of what was sent is still here: another send(), of nothing too, continues with
  /// it.
  virtual bool has_unsent() const { return false; }
  /// Whether something that has come can be received though the descriptor has nothing to read.
  virtual bool has_ahead() const { return false; }
  /// The flaw of the peer's bytes, after an error EBADMSG: "does not speak TLS".
  virtual std::string failure() const { return {}; }
  /// Whether that is because it has no key of this run.
  virtual bool is_wrong_key() const { return false; }

  /// Ends both directions after what was sent, and wakes those who wait.
  void shut_down() noexcept;
  /// Throws away what has come, so that closing does not cut off what was sent.
  void drop_received() noexcept;

  /// Time of a message to the peer and back, as the system has last seen it; nothing where it does
  /// not tell.
  std::optional<std::chrono::microseconds> round_trip() const;

  Endpoint local() const;
  Endpoint remote() const;

  /// Gives the descriptor away.
  int release() noexcept;

 private:
  int descriptor_;
};

/// Sends small messages at once instead of waiting for more.
void set_no_delay(Socket& socket);

/// Connects to one endpoint. Null when that fails, with `error` set; ETIMEDOUT at the deadline.
std::shared_ptr<Socket> connect_to(const Endpoint& endpoint, const Deadline& deadline, int& error);

/// Sleeps until a descriptor of these is ready or the deadline passes, and looks nowhere else.
/// Returns how many are ready.
int poll_until(std::span<pollfd> descriptors, const Deadline& deadline);

}  // namespace muster::net
