#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/platform/net/socket_internal.h"

namespace muster::net {
namespace {

using Clock = Deadline::Clock;

// sendmsg and recvmsg take no more pieces at once (IOV_MAX of Linux).
constexpr std::size_t kMostPieces = 1024;

int milliseconds_until(const Deadline& deadline) {
  if (deadline.is_never()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
  return static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max()));
}

msghdr message_of(std::span<const iovec> pieces) {
  msghdr message{};
  // The kernel does not write to it; the structure is older than const.
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = std::min(pieces.size(), kMostPieces);
  return message;
}

// A signal ends a short wait as time does. To begin it again would wait for ever, past the deadline
// of the caller, where signals come more often than that, as a profiler's do.
Moved moved_by(ssize_t count) {
  if (count >= 0) return {.bytes = static_cast<std::size_t>(count)};
  return {.error = errno == EINTR ? EAGAIN : errno};
}

Moved send_message(int descriptor, std::span<const iovec> pieces, int flags) {
  const msghdr message = message_of(pieces);
  flags |= MSG_NOSIGNAL | (pieces.size() > kMostPieces ? MSG_MORE : 0);
  return moved_by(::sendmsg(descriptor, &message, flags));
}

Moved receive_message(int descriptor, std::span<const iovec> pieces, int flags) {
  msghdr message = message_of(pieces);
  return moved_by(::recvmsg(descriptor, &message, flags));
}

// A port without a listener can be the one that the kernel chose for this very socket: then TCP
// connects it to itself.
bool is_connected_to_itself(const Socket& socket) {
  const Endpoint local = socket.local();
  const Endpoint remote = socket.remote();
  return local.size == remote.size && std::memcmp(&local.storage, &remote.storage, local.size) == 0;
}

int pending_error(const Socket& socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

}  // namespace

Socket::Socket(int descriptor) : descriptor_(descriptor) {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  ::fcntl(descriptor_, F_SETFL, flags | O_NONBLOCK);
}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int Socket::release() noexcept { return std::exchange(descriptor_, -1); }

Moved Socket::send(std::span<const iovec> pieces) {
  return send_message(descriptor_, pieces, MSG_DONTWAIT);
}

Moved Socket::send_soon(std::span<const iovec> pieces) {
  return send_message(descriptor_, pieces, 0);
}

Moved Socket::receive(std::span<const iovec> pieces) {
  return receive_message(descriptor_, pieces, MSG_DONTWAIT);
}

Moved Socket::receive_soon(std::span<const iovec> pieces) {
  return receive_message(descriptor_, pieces, 0);
}

void Socket::allow_waiting() {
  const timeval span{.tv_sec = 0, .tv_usec = std::chrono::microseconds(kShortWait).count()};
  if (::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &span, sizeof(span)) == 0 &&
      ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &span, sizeof(span)) == 0) {
    ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
  }
}

bool Socket::wait(short events, const Deadline& deadline, const WaitReason& reason) {
  pollfd watched{.fd = descriptor_, .events = events, .revents = 0};
  const std::span<pollfd> one(&watched, 1);
  const Deadline soon = Deadline::after(kShortWait);
  if (poll_until(one, deadline.time() < soon.time() ? deadline : soon) > 0) return true;
  if (deadline.expired()) return false;
  std::optional<BlockingRegion> region;
  if (reason) region.emplace(reason);
  return poll_until(one, deadline) > 0;
}

void Socket::shut_down() noexcept { ::shutdown(descriptor_, SHUT_RDWR); }

void Socket::drop_received() noexcept {
  constexpr int kMostReads = 64;
  for (int i = 0; i < kMostReads; ++i) {
    // TCP throws the bytes away without copying them.
    if (::recv(descriptor_, nullptr, std::size_t{1} << 20, MSG_DONTWAIT | MSG_TRUNC) <= 0) return;
  }
}

std::optional<std::chrono::microseconds> Socket::round_trip() const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_rtt == 0) {
    return std::nullopt;
  }
  return std::chrono::microseconds(info.tcpi_rtt);
}

Endpoint Socket::local() const {
  Endpoint endpoint;
  endpoint.size = sizeof(endpoint.storage);
  if (::getsockname(descriptor_, endpoint.get(), &endpoint.size) != 0) return {};
  return endpoint;
}

Endpoint Socket::remote() const {
  Endpoint endpoint;
  endpoint.size = sizeof(endpoint.storage);
  if (::getpeername(descriptor_, endpoint.get(), &endpoint.size) != 0) return {};
  return endpoint;
}

void set_no_delay(Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

std::shared_ptr<Socket> connect_to(const Endpoint& endpoint, const Deadline& deadline, int& error) {
  const int descriptor = ::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    error = errno;
    return nullptr;
  }
  auto socket = std::make_shared<Socket>(descriptor);
  error = ::connect(descriptor, endpoint.get(), endpoint.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EINTR) {
    const WaitReason reason = [&] { return "a connection to " + endpoint.to_string(); };
    error = socket->wait(POLLOUT, deadline, reason) ? pending_error(*socket) : ETIMEDOUT;
  }
  if (error == 0 && is_connected_to_itself(*socket)) error = ECONNREFUSED;
  if (error != 0) return nullptr;
  set_no_delay(*socket);
  return socket;
}

int poll_until(std::span<pollfd> descriptors, const Deadline& deadline) {
  for (;;) {
    const int ready = ::poll(descriptors.data(), descriptors.size(), milliseconds_until(deadline));
    if (ready > 0) return ready;
    if (ready < 0 && errno != EINTR) throw_errno(errno, "waiting for the network");
    if (deadline.expired()) return 0;
  }
}

}  // namespace muster::net
