#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/platform/net/connection.h"
#include "muster/platform/net/frame_internal.h"
#include "muster/platform/net/socket_internal.h"

namespace muster::net {

/// State of a connection; the listener shares it to close the connection.
struct Connection::State {
  State(std::shared_ptr<Socket> connected, std::string peer_name, const ConnectionOptions& options);

  void send(const FramePrefix& prefix, std::string_view header,
            std::span<const std::span<const std::byte>> body, const Deadline& deadline);
  std::optional<FrameInfo> receive_header(const Deadline& deadline);
  void receive_body(std::span<std::byte> to);
  bool wait_readable(const Deadline& deadline);
  bool wait_readable(int waker, const WaitReason& reason);
  bool has_begun() const { return ahead() > 0; }
  void close() noexcept;
  FrameLimits limits_of(std::uint32_t type) const;

  const std::shared_ptr<Socket> socket;
  const std::string peer;
  const ConnectionOptions options;
  std::atomic<bool> detached = false;
  std::function<void()> before_waiting_to_send;

 private:
  class Turn;

  void write_all(std::vector<iovec> pieces, const Deadline& deadline);
  void throw_if_unusable() const;

  std::size_t ahead() const { return ahead_end_ - ahead_begin_; }
  bool fill_ahead(std::size_t count, const Deadline& deadline);
  bool read_ahead(const Deadline& deadline);
  Moved receive_some(std::span<const iovec> pieces, const Deadline& deadline);
  void read_exactly(std::span<std::byte> to);
  void skip_body();
  void wait_for_rest();
  FramePrefix take_prefix();

  /// Handles the end of the stream, found by a read. Throws, unless this side has closed.
  void ended(int error, bool between_frames);
  /// Nothing more can be sent or received, for this reason, which later calls repeat.
  void give_up(const std::string& reason);
  [[noreturn]] void lost(int error);

  const WaitReason send_reason_;
  const WaitReason frame_reason_;
  const WaitReason rest_reason_;

  mutable std::mutex mutex_;  // Guards the four below.
  std::condition_variable turn_ended_;
  bool sending_ = false;
  bool closed_ = false;
  std::optional<std::string> broken_;

  // The receiving thread's own: bytes that came with those asked for, and where in the stream it
  // is.
  static constexpr std::size_t kAheadBytes = std::size_t{16} << 10;
  std::unique_ptr<std::byte[]> ahead_;
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
  std::uint64_t body_left_ = 0;
  bool said_goodbye_ = false;
};

}  // namespace muster::net
