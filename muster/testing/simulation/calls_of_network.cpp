// The calls of the C library that reach other processes, or wait for them: sockets of TCP, pipes
// and events. A simulated descriptor is an open file of the process that nothing is read from, so
// no other file has its number. Others are the system's own.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "muster/testing/simulation/real_calls_internal.h"
#include "muster/testing/simulation/world.h"

#define REAL_CALL(name)                                     \
  (::muster::simulation::real_call<decltype(::name)>(       \
      []() -> decltype(::name)*& {                          \
        static constinit decltype(::name)* known = nullptr; \
        return known;                                       \
      }(),                                                  \
      #name))

namespace muster::simulation {

long real_write(int descriptor, const void* bytes, std::size_t size) {
  return REAL_CALL(write)(descriptor, bytes, size);
}
void real__exit(int status) {
  REAL_CALL(_exit)(status);
  __builtin_unreachable();
}

namespace {

constexpr int kMostDescriptors = 4096;
/// The socket of each descriptor of this process, plus one.
constinit std::array<int, kMostDescriptors> g_sockets{};

Socket* socket_of(int descriptor) {
  if (!is_simulated() || descriptor < 0 || descriptor >= kMostDescriptors) return nullptr;
  const int index = g_sockets[static_cast<std::size_t>(descriptor)] - 1;
  return index < 0 ? nullptr : &world().sockets[static_cast<std::size_t>(index)];
}
int index_of(int descriptor) { return g_sockets[static_cast<std::size_t>(descriptor)] - 1; }

int open_descriptor(int index) {
  const int descriptor = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (descriptor < 0 || descriptor >= kMostDescriptors) std::abort();
  g_sockets[static_cast<std::size_t>(descriptor)] = index + 1;
  return descriptor;
}

/// The return value of a system call for a result of ours: sets errno.
template <typename Result>
Result answered(Result result) {
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

void watch(int index) {
  self().watched_count = 1;
  self().watched[0] = index;
}

bool may_wait(const Socket& socket, int flags) {
  return !socket.nonblocking && (flags & MSG_DONTWAIT) == 0;
}

Time deadline_after(Time span) { return span > 0 ? world().now + span : kNever; }

/// Tries until it moves something, may not wait, or the time is over.
template <typename Try>
std::int64_t move_bytes(int descriptor, bool waits, Time span, Try try_once) {
  const int index = index_of(descriptor);
  const Time deadline = deadline_after(span);
  for (;;) {
    const std::int64_t moved = try_once(index);
    if (moved != -EAGAIN || !waits || world().now >= deadline) return moved;
    watch(index);
    block(deadline);
    // Another thread has closed it meanwhile.
    if (index_of(descriptor) != index) return -EBADF;
  }
}

std::int64_t send_pieces(int index, const iovec* pieces, std::size_t count) {
  std::int64_t done = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len == 0) continue;
    const std::int64_t sent = send_bytes(index, pieces[i].iov_base, pieces[i].iov_len);
    if (sent < 0) return done > 0 ? done : sent;
    done += sent;
    if (static_cast<std::size_t>(sent) < pieces[i].iov_len) return done > 0 ? done : -EAGAIN;
  }
  return done;
}

std::int64_t receive_pieces(int index, const iovec* pieces, std::size_t count) {
  std::int64_t done = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len == 0) continue;
    const std::int64_t got = receive_bytes(index, pieces[i].iov_base, pieces[i].iov_len);
    if (got < 0) return done > 0 ? done : got;
    done += got;
    if (static_cast<std::size_t>(got) < pieces[i].iov_len) break;
  }
  return done;
}

std::int64_t send_all(int descriptor, const iovec* pieces, std::size_t count, int flags) {
  const Socket& socket = *socket_of(descriptor);
  const std::int64_t sent =
      move_bytes(descriptor, may_wait(socket, flags), socket.send_timeout,
                 [&](int index) { return send_pieces(index, pieces, count); });
  maybe_yield();
  return answered(sent);
}

std::int64_t receive_all(int descriptor, const iovec* pieces, std::size_t count, int flags) {
  const Socket& socket = *socket_of(descriptor);
  return answered(move_bytes(descriptor, may_wait(socket, flags), socket.receive_timeout,
                             [&](int index) { return receive_pieces(index, pieces, count); }));
}

void put_address(std::uint32_t address, std::uint16_t port, sockaddr* to, socklen_t* size) {
  if (to == nullptr || size == nullptr) return;
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(address);
  in.sin_port = htons(port);
  std::memcpy(to, &in, std::min<std::size_t>(*size, sizeof(in)));
  *size = sizeof(in);
}

bool take_address(const sockaddr* from, std::uint32_t& address, std::uint16_t& port) {
  if (from->sa_family != AF_INET) return false;
  sockaddr_in in;
  std::memcpy(&in, from, sizeof(in));
  address = ntohl(in.sin_addr.s_addr);
  port = ntohs(in.sin_port);
  return true;
}

Time time_of(const timeval& span) { return span.tv_sec * kSecond + span.tv_usec * kMicrosecond; }

int count_ready(pollfd* watched, nfds_t count) {
  int ready = 0;
  for (nfds_t i = 0; i < count; ++i) {
    watched[i].revents = 0;
    if (watched[i].fd < 0) continue;
    const bool simulated = socket_of(watched[i].fd) != nullptr;
    watched[i].revents =
        simulated ? ready_events(index_of(watched[i].fd), watched[i].events) : watched[i].events;
    if (watched[i].revents != 0) ++ready;
  }
  return ready;
}

void watch_all(const pollfd* watched, nfds_t count) {
  Thread& me = self();
  me.watched_count = 0;
  for (nfds_t i = 0; i < count; ++i) {
    if (watched[i].fd < 0) continue;
    if (me.watched_count == kMostWatched) {
      me.watched_count = -1;
      return;
    }
    me.watched[static_cast<std::size_t>(me.watched_count++)] = index_of(watched[i].fd);
  }
}

void fill_by_draw(void* bytes, std::size_t size) {
  auto* const to = static_cast<unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<unsigned char>(draw());
}

// Lines of a task's log.
std::int64_t write_to_story(const void* bytes, std::size_t size) {
  const std::string_view line(static_cast<const char*>(bytes), size);
  tell(self().process, line);
  // 2026-03-01T10:04:11.532 E ...
  auto& first = world().first_error;
  if (first[0] == 0 && !own_process().excused && size > 26 && line.substr(23, 3) == " E ") {
    line.copy(first.data(), first.size() - 1);
  }
  return static_cast<std::int64_t>(size);
}

}  // namespace
}  // namespace muster::simulation

using namespace muster::simulation;  // NOLINT: the calls below are of no namespace.

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  if (!is_simulated() || (domain != AF_INET && domain != AF_INET6)) {
    return REAL_CALL(socket)(domain, type, protocol);
  }
  const SocketId id = make_socket(Socket::Kind::kTcp);
  world().sockets[static_cast<std::size_t>(id.index)].nonblocking = (type & SOCK_NONBLOCK) != 0;
  return open_descriptor(id.index);
}

int bind(int descriptor, const sockaddr* address, socklen_t size) noexcept {
  Socket* const socket = socket_of(descriptor);
  if (socket == nullptr) return REAL_CALL(bind)(descriptor, address, size);
  if (!take_address(address, socket->address, socket->port)) return answered(-EAFNOSUPPORT);
  return 0;
}

int listen(int descriptor, int backlog) noexcept {
  Socket* const socket = socket_of(descriptor);
  if (socket == nullptr) return REAL_CALL(listen)(descriptor, backlog);
  return answered(listen_at(*socket));
}

int accept4(int descriptor, sockaddr* address, socklen_t* size, int flags) {
  if (socket_of(descriptor) == nullptr) return REAL_CALL(accept4)(descriptor, address, size, flags);
  const bool waits = !socket_of(descriptor)->nonblocking;
  const std::int64_t taken =
      move_bytes(descriptor, waits, 0, [](int index) { return std::int64_t{accept_from(index)}; });
  if (taken < 0) return static_cast<int>(answered(taken));
  Socket& made = world().sockets[static_cast<std::size_t>(taken)];
  made.nonblocking = (flags & SOCK_NONBLOCK) != 0;
  put_address(made.peer_address, made.peer_port, address, size);
  return open_descriptor(static_cast<int>(taken));
}

int connect(int descriptor, const sockaddr* address, socklen_t size) {
  Socket* const socket = socket_of(descriptor);
  if (socket == nullptr) return REAL_CALL(connect)(descriptor, address, size);
  if (!take_address(address, socket->peer_address, socket->peer_port))
    return answered(-EAFNOSUPPORT);
  if (socket->address == 0) {
    socket->address = 0x7f000000U | static_cast<std::uint32_t>(socket->host);
  }
  start_connecting(index_of(descriptor));
  if (socket->nonblocking) return answered(-EINPROGRESS);
  while (socket->state != Socket::State::kConnected) {
    watch(index_of(descriptor));
    block(kNever);
  }
  return answered(-std::exchange(socket->error, 0));
}

int getsockname(int descriptor, sockaddr* __restrict address, socklen_t* __restrict size) noexcept {
  const Socket* const socket = socket_of(descriptor);
  if (socket == nullptr) return REAL_CALL(getsockname)(descriptor, address, size);
  put_address(socket->address, socket->port, address, size);
  return 0;
}

int getpeername(int descriptor, sockaddr* __restrict address, socklen_t* __restrict size) noexcept {
  const Socket* const socket = socket_of(descriptor);
  if (socket == nullptr) return REAL_CALL(getpeername)(descriptor, address, size);
  if (socket->peer_port == 0) return answered(-ENOTCONN);
  put_address(socket->peer_address, socket->peer_port, address, size);
  return 0;
}

int getsockopt(int descriptor, int level, int name, void* __restrict value,
               socklen_t* __restrict size) noexcept {
  Socket* const socket = socket_of(descriptor);
  if (socket == nullptr) return REAL_CALL(getsockopt)(descriptor, level, name, value, size);
  std::memset(value, 0, *size);
  if (level == SOL_SOCKET && name == SO_ERROR) {
    const int error = std::exchange(socket->error, 0);
    std::memcpy(value, &error, sizeof(error));
  }
  return 0;
}

int setsockopt(int descriptor, int level, int name, const void* value, socklen_t size) noexcept {
  Socket* const socket = socket_of(descriptor);
  if (socket == nullptr) return REAL_CALL(setsockopt)(descriptor, level, name, value, size);
  if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
    timeval span{};
    std::memcpy(&span, value, std::min<std::size_t>(size, sizeof(span)));
    (name == SO_RCVTIMEO ? socket->receive_timeout : socket->send_timeout) = time_of(span);
  }
  return 0;
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  if (socket_of(descriptor) == nullptr) return REAL_CALL(sendmsg)(descriptor, message, flags);
  return send_all(descriptor, message->msg_iov, message->msg_iovlen, flags);
}
ssize_t send(int descriptor, const void* bytes, std::size_t size, int flags) {
  if (socket_of(descriptor) == nullptr) return REAL_CALL(send)(descriptor, bytes, size, flags);
  const iovec piece{.iov_base = const_cast<void*>(bytes), .iov_len = size};
  return send_all(descriptor, &piece, 1, flags);
}
ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  if (socket_of(descriptor) == nullptr) return REAL_CALL(recvmsg)(descriptor, message, flags);
  return receive_all(descriptor, message->msg_iov, message->msg_iovlen, flags);
}
ssize_t recv(int descriptor, void* bytes, std::size_t size, int flags) {
  if (socket_of(descriptor) == nullptr) return REAL_CALL(recv)(descriptor, bytes, size, flags);
  const iovec piece{.iov_base = bytes, .iov_len = size};
  return receive_all(descriptor, &piece, 1, flags);
}

int shutdown(int descriptor, int how) noexcept {
  if (socket_of(descriptor) == nullptr) return REAL_CALL(shutdown)(descriptor, how);
  shut_down(index_of(descriptor), how);
  return 0;
}

int close(int descriptor) {
  if (socket_of(descriptor) != nullptr) {
    const int index = index_of(descriptor);
    notify_watchers(index);
    close_socket(index);
    g_sockets[static_cast<std::size_t>(descriptor)] = 0;
  }
  return REAL_CALL(close)(descriptor);
}

int fcntl(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  Socket* const socket = socket_of(descriptor);
  if (socket != nullptr && command == F_SETFL) {
    socket->nonblocking = (reinterpret_cast<std::intptr_t>(argument) & O_NONBLOCK) != 0;
    return 0;
  }
  if (socket != nullptr && command == F_GETFL)
    return O_RDWR | (socket->nonblocking ? O_NONBLOCK : 0);
  return REAL_CALL(fcntl)(descriptor, command, argument);
}

int poll(pollfd* watched, nfds_t count, int milliseconds) {
  if (!is_simulated()) return REAL_CALL(poll)(watched, count, milliseconds);
  const Time deadline = milliseconds < 0 ? kNever : world().now + milliseconds * kMillisecond;
  for (;;) {
    const int ready = count_ready(watched, count);
    if (ready > 0 || world().now >= deadline) return ready;
    watch_all(watched, count);
    block(deadline);
  }
}

int eventfd(unsigned count, int flags) noexcept {
  if (!is_simulated()) return REAL_CALL(eventfd)(count, flags);
  const SocketId id = make_socket(Socket::Kind::kEvent);
  Socket& event = world().sockets[static_cast<std::size_t>(id.index)];
  event.count = count;
  event.nonblocking = (flags & EFD_NONBLOCK) != 0;
  return open_descriptor(id.index);
}
int eventfd_write(int descriptor, eventfd_t more) {
  Socket* const event = socket_of(descriptor);
  if (event == nullptr) return REAL_CALL(eventfd_write)(descriptor, more);
  event->count += more;
  notify_watchers(index_of(descriptor));
  return 0;
}
int eventfd_read(int descriptor, eventfd_t* count) {
  if (socket_of(descriptor) == nullptr) return REAL_CALL(eventfd_read)(descriptor, count);
  const std::int64_t error =
      move_bytes(descriptor, !socket_of(descriptor)->nonblocking, 0, [&](int index) {
        Socket& event = world().sockets[static_cast<std::size_t>(index)];
        if (event.count == 0) return std::int64_t{-EAGAIN};
        *count = std::exchange(event.count, 0);
        return std::int64_t{0};
      });
  return static_cast<int>(answered(error));
}

int pipe2(int* ends, int flags) noexcept {
  if (!is_simulated()) return REAL_CALL(pipe2)(ends, flags);
  const SocketId out = make_socket(Socket::Kind::kPipe);
  const SocketId in = make_socket(Socket::Kind::kPipe);
  for (const auto& [from, to] : {std::pair(out, in), std::pair(in, out)}) {
    Socket& end = world().sockets[static_cast<std::size_t>(from.index)];
    end.state = Socket::State::kConnected;
    end.peer = to;
    end.nonblocking = (flags & O_NONBLOCK) != 0;
  }
  ends[0] = open_descriptor(out.index);
  ends[1] = open_descriptor(in.index);
  return 0;
}

ssize_t read(int descriptor, void* bytes, std::size_t size) {
  if (socket_of(descriptor) == nullptr) return REAL_CALL(read)(descriptor, bytes, size);
  const iovec piece{.iov_base = bytes, .iov_len = size};
  return receive_all(descriptor, &piece, 1, 0);
}

void _exit(int status) {
  if (is_simulated()) exit_process(status);
  REAL_CALL(_exit)(status);
  __builtin_unreachable();
}

ssize_t getrandom(void* bytes, std::size_t size, unsigned flags) {
  if (!is_simulated()) return REAL_CALL(getrandom)(bytes, size, flags);
  fill_by_draw(bytes, size);
  return static_cast<ssize_t>(size);
}
int getentropy(void* bytes, std::size_t size) {
  if (!is_simulated()) return REAL_CALL(getentropy)(bytes, size);
  fill_by_draw(bytes, size);
  return 0;
}

ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  if (!is_simulated()) return REAL_CALL(write)(descriptor, bytes, size);
  if (socket_of(descriptor) != nullptr) {
    const iovec piece{.iov_base = const_cast<void*>(bytes), .iov_len = size};
    return send_all(descriptor, &piece, 1, 0);
  }
  if (descriptor == STDOUT_FILENO || descriptor == STDERR_FILENO)
    return write_to_story(bytes, size);
  const Host& disk = own_host();
  if (disk.slow_until > world().now) block(world().now + disk.delay);
  if (disk.full_until > world().now) {
    // Some of it may still fit.
    if (size < 2 || draw_below(2) == 0) return answered(std::int64_t{-ENOSPC});
    size = 1 + draw_below(size - 1);
  }
  const std::uint32_t share = world().weather.short_writes_per_million;
  if (size > 1 && share > 0 && draw_below(1'000'000) < share) size = 1 + draw_below(size - 1);
  const ssize_t written = REAL_CALL(write)(descriptor, bytes, size);
  if (written >= 0) maybe_yield();
  return written;
}

int fsync(int descriptor) {
  if (!is_simulated()) return REAL_CALL(fsync)(descriptor);
  const Host& disk = own_host();
  if (disk.slow_until > world().now) block(world().now + 10 * disk.delay);
  maybe_yield();
  keep_synced(descriptor);
  return 0;
}

}  // extern "C"
