#include "muster/platform/net/connection.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/platform/net/connection_internal.h"

namespace muster::net {
namespace {

std::string words_of(int error) { return std::generic_category().message(error); }

iovec piece(const void* data, std::size_t size) {
  // sendmsg only reads; the structure is older than const.
  return {.iov_base = const_cast<void*>(data), .iov_len = size};
}

/// Takes the first `count` bytes off the pieces, from `first` on; gives the first that is left.
std::size_t advance(std::vector<iovec>& pieces, std::size_t first, std::size_t count) {
  while (first < pieces.size() && count >= pieces[first].iov_len) {
    count -= pieces[first].iov_len;
    ++first;
  }
  if (count > 0) {
    pieces[first].iov_base = static_cast<char*>(pieces[first].iov_base) + count;
    pieces[first].iov_len -= count;
  }
  return first;
}

std::uint64_t total(std::span<const std::span<const std::byte>> pieces) {
  std::uint64_t sum = 0;
  for (const auto& bytes : pieces) sum += bytes.size();
  return sum;
}

}  // namespace

/// One thread's right to write a frame.
class Connection::State::Turn {
 public:
  Turn(State& state, const Deadline& deadline) : state_(state) {
    std::unique_lock lock(state_.mutex_);
    muster::wait(state_.turn_ended_, lock, deadline, state_.send_reason_, [this] {
      return !state_.sending_ || state_.closed_ || state_.broken_.has_value();
    });
    state_.throw_if_unusable();
    state_.sending_ = true;
  }
  ~Turn() {
    std::lock_guard lock(state_.mutex_);
    state_.sending_ = false;
    state_.turn_ended_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  State& state_;
};

Connection::State::State(std::shared_ptr<Socket> connected, std::string peer_name,
                         const ConnectionOptions& given)
    : socket(std::move(connected)),
      peer(std::move(peer_name)),
      options(given),
      send_reason_([this] { return fmt::format("{} to take what is sent", peer); }),
      frame_reason_([this] { return fmt::format("a message of {}", peer); }),
      rest_reason_([this] { return fmt::format("the rest of a message of {}", peer); }),
      ahead_(new std::byte[kAheadBytes]) {
  socket->allow_waiting();
}

// Under the lock.
void Connection::State::throw_if_unusable() const {
  if (broken_) throw Unavailable("{}", *broken_);
  if (closed_) throw Cancelled("the connection with {} was closed here", peer);
}

void Connection::State::give_up(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (!broken_ && !closed_) broken_ = reason;
    turn_ended_.notify_all();
  }
  socket->shut_down();
}

void Connection::State::lost(int error) {
  const std::string failure = socket->failure();
  const std::string reason =
      !failure.empty() ? fmt::format("{} {}", peer, failure)
                       : fmt::format("{} was lost: {}", peer,
                                     error == 0 ? "connection closed by peer" : words_of(error));
  give_up(reason);
  std::lock_guard lock(mutex_);
  throw_if_unusable();
  throw Unavailable("{}", reason);
}

void Connection::State::send(const FramePrefix& prefix, std::string_view header,
                             std::span<const std::span<const std::byte>> body,
                             const Deadline& deadline) {
  const auto bytes = encode(prefix);
  std::vector<iovec> pieces;
  pieces.reserve(2 + body.size());
  pieces.push_back(piece(bytes.data(), bytes.size()));
  if (!header.empty()) pieces.push_back(piece(header.data(), header.size()));
  for (const auto& part : body) {
    if (!part.empty()) pieces.push_back(piece(part.data(), part.size()));
  }
  const Turn turn(*this, deadline);
  write_all(std::move(pieces), deadline);
}

void Connection::State::write_all(std::vector<iovec> pieces, const Deadline& deadline) {
  bool begun = false;
  bool may_wait = !before_waiting_to_send;
  for (std::size_t first = 0; first < pieces.size() || socket->has_unsent();) {
    const auto rest = std::span(pieces).subspan(first);
    const bool waits = may_wait && deadline.remaining() > kShortWait;
    const Moved moved = waits ? socket->send_soon(rest) : socket->send(rest);
    begun = begun || moved.bytes > 0;
    first = advance(pieces, first, moved.bytes);
    if (moved.error == 0) continue;
    if (!moved.would_block()) lost(moved.error);
    if (!std::exchange(may_wait, true)) {
      before_waiting_to_send();
      continue;
    }
    if (socket->wait(POLLOUT, deadline, send_reason_)) continue;
    const std::string reason = fmt::format("{} did not take what was sent in time", peer);
    if (begun) give_up(reason);
    throw DeadlineExceeded("{}", reason);
  }
}

/// Receives the bytes that have come; waits for a short time, where the deadline leaves it.
Moved Connection::State::receive_some(std::span<const iovec> pieces, const Deadline& deadline) {
  return deadline.remaining() > kShortWait ? socket->receive_soon(pieces) : socket->receive(pieces);
}

bool Connection::State::read_ahead(const Deadline& deadline) {
  if (ahead_begin_ > 0) {
    std::memmove(ahead_.get(), ahead_.get() + ahead_begin_, ahead());
    ahead_end_ -= ahead_begin_;
    ahead_begin_ = 0;
  }
  const iovec room = piece(ahead_.get() + ahead_end_, kAheadBytes - ahead_end_);
  const Moved moved = receive_some({&room, 1}, deadline);
  if (moved.would_block()) return false;
  if (moved.bytes == 0) ended(moved.error, ahead() == 0 && body_left_ == 0);
  ahead_end_ += moved.bytes;
  return true;
}

void Connection::State::ended(int error, bool between_frames) {
  {
    std::lock_guard lock(mutex_);
    if (closed_ && !broken_ && between_frames) {
      said_goodbye_ = true;
      return;
    }
    throw_if_unusable();
  }
  lost(error);
}

void Connection::State::wait_for_rest() {
  if (socket->wait(POLLIN, Deadline::after(options.frame_stall), rest_reason_)) return;
  const std::string reason =
      fmt::format("{} stopped in the middle of a message for {} s", peer,
                  std::chrono::duration<double>(options.frame_stall).count());
  give_up(reason);
  throw Unavailable("{}", reason);
}

/// Until this many bytes are there, or the stream has ended in order (false).
bool Connection::State::fill_ahead(std::size_t count, const Deadline& deadline) {
  while (ahead() < count && !said_goodbye_) {
    if (read_ahead(deadline)) continue;
    if (ahead() > 0) {
      wait_for_rest();
    } else if (!socket->wait(POLLIN, deadline,
                             deadline.is_never() ? WaitReason() : frame_reason_)) {
      throw DeadlineExceeded("no message of {} came in time", peer);
    }
  }
  return ahead() >= count;
}

FrameLimits Connection::State::limits_of(std::uint32_t type) const {
  return options.limits_by_type ? options.limits_by_type(type) : options.limits;
}

FramePrefix Connection::State::take_prefix() {
  try {
    const FramePrefix prefix = decode_frame_prefix(std::span<const std::byte, kFramePrefixBytes>(
        ahead_.get() + ahead_begin_, kFramePrefixBytes));
    const FrameLimits limits = limits_of(prefix.type);
    if (prefix.header_bytes > limits.max_header || prefix.body_bytes > limits.max_body) {
      throw ResourceExhausted(
          "a message of type {} with {} + {} bytes is larger than allowed ({} + {})", prefix.type,
          prefix.header_bytes, prefix.body_bytes, limits.max_header, limits.max_body);
    }
    ahead_begin_ += kFramePrefixBytes;
    return prefix;
  } catch (Error& error) {
    give_up(fmt::format("{} sent {}", peer, error.message()));
    error.add_context(fmt::format("receiving from {}", peer));
    throw;
  }
}

std::optional<FrameInfo> Connection::State::receive_header(const Deadline& deadline) {
  skip_body();
  if (said_goodbye_ || !fill_ahead(kFramePrefixBytes, deadline)) return std::nullopt;
  const FramePrefix prefix = take_prefix();
  if (prefix.type == kGoodbyeType) {
    said_goodbye_ = true;
    return std::nullopt;
  }
  FrameInfo info{.type = prefix.type, .header = {}, .body_bytes = prefix.body_bytes};
  info.header.resize(prefix.header_bytes);
  body_left_ = prefix.header_bytes + prefix.body_bytes;
  read_exactly(std::as_writable_bytes(std::span(info.header)));
  return info;
}

void Connection::State::read_exactly(std::span<std::byte> to) {
  const std::size_t had = std::min(ahead(), to.size());
  if (had > 0) std::memcpy(to.data(), ahead_.get() + ahead_begin_, had);
  ahead_begin_ += had;
  body_left_ -= had;
  to = to.subspan(had);
  while (!to.empty()) {
    // The start of the next frame comes along in the same call.
    const iovec pieces[] = {piece(to.data(), to.size()), piece(ahead_.get(), kAheadBytes)};
    const Moved moved = receive_some(pieces, Deadline::after(options.frame_stall));
    if (moved.would_block()) {
      wait_for_rest();
      continue;
    }
    if (moved.bytes == 0) ended(moved.error, /*between_frames=*/false);
    const std::size_t count = std::min(moved.bytes, to.size());
    ahead_begin_ = 0;
    ahead_end_ = moved.bytes - count;
    body_left_ -= count;
    to = to.subspan(count);
  }
}

void Connection::State::skip_body() {
  std::vector<std::byte> nowhere(
      static_cast<std::size_t>(std::min<std::uint64_t>(body_left_, std::size_t{64} << 10)));
  while (body_left_ > 0) {
    read_exactly(std::span(nowhere).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(body_left_, nowhere.size()))));
  }
}

void Connection::State::receive_body(std::span<std::byte> to) {
  if (to.size() > body_left_) {
    throw InvalidArgument("the message of {} has {} bytes left, and {} are asked for", peer,
                          body_left_, to.size());
  }
  read_exactly(to);
}

bool Connection::State::wait_readable(const Deadline& deadline) {
  return said_goodbye_ || ahead() > 0 || socket->wait(POLLIN, deadline, frame_reason_);
}

bool Connection::State::wait_readable(int waker, const WaitReason& reason) {
  if (said_goodbye_ || ahead() > 0) return true;
  pollfd watched[] = {{.fd = socket->descriptor(), .events = POLLIN, .revents = 0},
                      {.fd = waker, .events = POLLIN, .revents = 0}};
  if (poll_until(watched, Deadline::after(kShortWait)) == 0) {
    const BlockingRegion region(reason);
    poll_until(watched, Deadline::never());
  }
  return watched[0].revents != 0;
}

void Connection::State::close() noexcept {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    // Inside another thread's frame there is no place for it: the peer will see a loss.
    if (!sending_ && !broken_) {
      const auto goodbye = encode({.type = kGoodbyeType});
      const iovec one = piece(goodbye.data(), goodbye.size());
      socket->send({&one, 1});
    }
    turn_ended_.notify_all();
  }
  socket->shut_down();
}

Connection::Connection(std::shared_ptr<State> state, std::string peer_task, std::string purpose)
    : state_(std::move(state)), peer_task_(std::move(peer_task)), purpose_(std::move(purpose)) {}

Connection::~Connection() {
  close();
  state_->socket->drop_received();
}

void Connection::send(std::uint32_t type, std::string_view header,
                      std::span<const std::span<const std::byte>> body, const Deadline& deadline) {
  const std::uint64_t body_bytes = total(body);
  if (type >= kReservedTypes) throw InvalidArgument("a type of the transport's own: {:#x}", type);
  const FrameLimits limits = state_->limits_of(type);
  if (header.size() > limits.max_header || body_bytes > limits.max_body) {
    throw InvalidArgument(
        "a message of type {} with {} + {} bytes is larger than allowed ({} + {})", type,
        header.size(), body_bytes, limits.max_header, limits.max_body);
  }
  state_->send({.type = type,
                .header_bytes = static_cast<std::uint32_t>(header.size()),
                .body_bytes = body_bytes},
               header, body, deadline);
}

void Connection::send(std::uint32_t type, std::string_view header, std::span<const std::byte> body,
                      const Deadline& deadline) {
  send(type, header, std::span<const std::span<const std::byte>>(&body, 1), deadline);
}

void Connection::send(std::uint32_t type, std::string_view header, const Deadline& deadline) {
  send(type, header, std::span<const std::span<const std::byte>>(), deadline);
}

std::optional<Frame> Connection::receive(const Deadline& deadline) {
  auto info = state_->receive_header(deadline);
  if (!info) return std::nullopt;
  Frame frame{.type = info->type,
              .header = std::move(info->header),
              .body = Buffer(static_cast<std::size_t>(info->body_bytes))};
  state_->receive_body(frame.body.bytes());
  return frame;
}

std::optional<FrameInfo> Connection::receive_header(const Deadline& deadline) {
  return state_->receive_header(deadline);
}

void Connection::receive_body(std::span<std::byte> to) { state_->receive_body(to); }

bool Connection::wait_readable(const Deadline& deadline) { return state_->wait_readable(deadline); }

bool Connection::wait_readable(const Waker& waker, const WaitReason& reason) {
  return state_->wait_readable(waker.descriptor(), reason);
}

bool Connection::has_begun() const { return state_->has_begun(); }

void Connection::wait_for_bytes() { state_->socket->wait(POLLIN, Deadline::never(), {}); }

void Connection::wait_for_end(const Waker& waker) {
  // Errors are told of unasked.
  pollfd watched[] = {{.fd = state_->socket->descriptor(), .events = POLLRDHUP, .revents = 0},
                      {.fd = waker.descriptor(), .events = POLLIN, .revents = 0}};
  poll_until(watched, Deadline::never());
}

void Connection::before_waiting_to_send(std::function<void()> call) {
  state_->before_waiting_to_send = std::move(call);
}

void Connection::close() noexcept { state_->close(); }

void Connection::detach() noexcept { state_->detached = true; }

std::optional<std::chrono::microseconds> Connection::round_trip() const {
  return state_->socket->round_trip();
}

const std::string& Connection::peer() const { return state_->peer; }

}  // namespace muster::net
