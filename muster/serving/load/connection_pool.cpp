#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/serving/load/connection_pool_internal.h"

namespace muster::serving {
namespace {

constexpr std::chrono::milliseconds kRetryConnect{50};
constexpr std::chrono::nanoseconds kLongestWait = std::chrono::seconds(1);
constexpr std::uint64_t kWaker = ~std::uint64_t{0};
constexpr int kMostEvents = 256;
using EpollEvents = std::array<epoll_event, kMostEvents>;

// The kernel may wake a thread this much later than it asked for, to save power.
constexpr unsigned long kTimerSlackNanoseconds = 1'000;

int descriptor_or_throw(int descriptor) {
  if (descriptor < 0) throw_errno(errno, "waiting for connections");
  return descriptor;
}

EpollEvents& events_of_thread() {
  thread_local EpollEvents events;
  return events;
}

}  // namespace

ConnectionPool::ConnectionPool(Options options)
    : options_(std::move(options)),
      epoll_(descriptor_or_throw(::epoll_create1(EPOLL_CLOEXEC))),
      waker_(descriptor_or_throw(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWaker;
  ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, waker_.number(), &event);
  connections_.reserve(options_.connections);
  for (std::size_t i = 0; i < options_.connections; ++i) {
    connections_.push_back(std::make_unique<Connection>());
    connections_.back()->number = i;
  }
}

ConnectionPool::~ConnectionPool() = default;

void ConnectionPool::open(const Deadline& deadline, const std::stop_token& stop) {
  for (const auto& connection : connections_) {
    if (stop.stop_requested()) return;
    connect(*connection);
  }
  while (open_ < connections_.size() && !stop.stop_requested()) {
    if (!last_failure_.empty()) {
      throw Unavailable("no server answers at {}: {}", options_.server->text, last_failure_);
    }
    if (deadline.expired()) {
      throw Unavailable("{}: {} of {} connections were opened in time", options_.server->text,
                        open_, connections_.size());
    }
    wait(Clock::now() + kRetryConnect);
  }
}

std::optional<std::size_t> ConnectionPool::next_free() {
  while (!free_.empty()) {
    Connection& connection = *connections_[free_.front()];
    free_.pop_front();
    connection.is_in_free = false;
    if (connection.session != nullptr && !connection.is_connecting &&
        connection.session->can_send()) {
      return connection.number;
    }
  }
  return std::nullopt;
}

void ConnectionPool::send(std::size_t number, std::uint64_t tag, const PreparedRequest& request) {
  Connection& connection = *connections_[number];
  connection.session->send(tag, request);
  add_unsent(connection);
  add_free(connection);
}

void ConnectionPool::cancel(std::size_t number, std::uint64_t tag) {
  Connection& connection = *connections_[number];
  if (connection.session == nullptr) return;
  if (connection.session->cancel(tag)) {
    add_unsent(connection);
    add_free(connection);
  } else {
    lose(connection, "cancelled");
    // The request had its time, so this cannot happen again at once.
    connection.connect_at = Clock::now();
  }
}

void ConnectionPool::wait(Clock::time_point until) {
  flush_all();
  connect_lost();
  for (const std::size_t number : lost_) {
    until = std::min(until, connections_[number]->connect_at.value_or(until));
  }
  const int count = wait_for_events(until);
  const EpollEvents& events = events_of_thread();
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == kWaker) {
      std::uint64_t value = 0;
      (void)!::read(waker_.number(), &value, sizeof value);
    } else {
      handle(*connections_[event.data.u64], event.events);
    }
  }
  flush_all();
}

void ConnectionPool::wake() {
  const std::uint64_t one = 1;
  (void)!::write(waker_.number(), &one, sizeof one);
}

int ConnectionPool::wait_for_events(Clock::time_point until) {
  const auto left = std::clamp<std::chrono::nanoseconds>(until - Clock::now(),
                                                         std::chrono::nanoseconds(0), kLongestWait);
  EpollEvents& events = events_of_thread();
  if (has_fine_waits_) {
    thread_local const bool has_slack = ::prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds) == 0;
    (void)has_slack;
    const timespec time{.tv_sec = left.count() / 1'000'000'000,
                        .tv_nsec = left.count() % 1'000'000'000};
    const int count = ::epoll_pwait2(epoll_.number(), events.data(), kMostEvents, &time, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    // The kernel does not have the call, or a container's filter forbids it.
    has_fine_waits_ = false;
  }
  // Rounded down: the last millisecond is waited for by asking again and again.
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(left);
  return ::epoll_wait(epoll_.number(), events.data(), kMostEvents,
                      static_cast<int>(milliseconds.count()));
}

void ConnectionPool::connect(Connection& connection) {
  connection.connect_at.reset();
  try {
    connection.socket = ClientSocket(*options_.server);
  } catch (const Error& error) {
    return retry_later(connection, error.message());
  }
  connection.session = options_.over_grpc ? grpc_session(options_.session, options_.on_answer)
                                          : http1_session(options_.session, options_.on_answer);
  connection.output.clear();
  connection.is_connecting = true;
  connection.waits_for_socket = true;
  connection.has_received = false;
  watch(connection, EPOLL_CTL_ADD);
}

void ConnectionPool::connect_lost() {
  if (lost_.empty()) return;
  const auto now = Clock::now();
  const std::vector<std::size_t> lost = std::exchange(lost_, {});
  for (const std::size_t number : lost) {
    Connection& connection = *connections_[number];
    if (!connection.connect_at) continue;
    if (*connection.connect_at <= now) {
      connect(connection);
    } else {
      lost_.push_back(number);
    }
  }
}

void ConnectionPool::watch(const Connection& connection, int operation) const {
  epoll_event event{};
  event.events = connection.is_connecting      ? static_cast<std::uint32_t>(EPOLLOUT)
                 : connection.waits_for_socket ? static_cast<std::uint32_t>(EPOLLIN | EPOLLOUT)
                                               : static_cast<std::uint32_t>(EPOLLIN);
  event.data.u64 = connection.number;
  ::epoll_ctl(epoll_.number(), operation, connection.socket.descriptor(), &event);
}

void ConnectionPool::handle(Connection& connection, std::uint32_t events) {
  if (!connection.socket.is_open()) return;
  if (connection.is_connecting) return finish_connecting(connection);
  if ((events & EPOLLOUT) != 0) flush(connection);
  if (connection.socket.is_open() && (events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
    receive(connection);
  }
}

void ConnectionPool::finish_connecting(Connection& connection) {
  if (const int failure = connection.socket.failure(); failure != 0) {
    connection.socket = ClientSocket();
    return retry_later(connection, std::strerror(failure));
  }
  connection.is_connecting = false;
  connection.waits_for_socket = false;
  connection.opened_at = Clock::now();
  watch(connection, EPOLL_CTL_MOD);
  ++open_;
  add_free(connection);
  add_unsent(connection);
}

void ConnectionPool::receive(Connection& connection) {
  input_.clear();
  const bool lives = connection.socket.receive(input_);
  if (!input_.empty()) connection.has_received = true;
  if (!input_.empty() && !connection.session->receive(input_)) {
    return lose(connection, "the server has ended the connection");
  }
  if (!lives) return lose(connection, "the server has closed the connection");
  add_free(connection);
  add_unsent(connection);
}

void ConnectionPool::lose(Connection& connection, const std::string& why) {
  connection.session->close(why);
  connection.session.reset();
  connection.socket = ClientSocket();
  --open_;
  // A server that takes connections and ends them is not asked for new ones all the time. Over
  // HTTP/1.1 one that has answered on a connection may end it.
  const bool has_answered = connection.has_received && !options_.over_grpc;
  connection.connect_at =
      has_answered ? Clock::now() : std::max(Clock::now(), connection.opened_at + kRetryConnect);
  lost_.push_back(connection.number);
}

void ConnectionPool::retry_later(Connection& connection, const std::string& why) {
  connection.is_connecting = false;
  connection.session.reset();
  last_failure_ = why;
  connection.connect_at = Clock::now() + kRetryConnect;
  lost_.push_back(connection.number);
  if (open_ == 0 && options_.on_no_connection) options_.on_no_connection(why);
}

void ConnectionPool::flush_all() {
  const std::vector<std::size_t> unsent = std::exchange(unsent_, {});
  for (const std::size_t number : unsent) {
    Connection& connection = *connections_[number];
    connection.is_in_unsent = false;
    if (connection.socket.is_open() && !connection.is_connecting) flush(connection);
  }
}

void ConnectionPool::flush(Connection& connection) {
  connection.session->take_output(connection.output);
  const long sent = connection.output.empty() ? 0 : connection.socket.send(connection.output);
  if (sent < 0) return lose(connection, "the server has closed the connection");
  connection.output.erase(0, static_cast<std::size_t>(sent));
  const bool waits = !connection.output.empty();
  if (waits != connection.waits_for_socket) {
    connection.waits_for_socket = waits;
    watch(connection, EPOLL_CTL_MOD);
  }
}

void ConnectionPool::add_free(Connection& connection) {
  if (connection.is_in_free || !connection.session->can_send()) return;
  connection.is_in_free = true;
  free_.push_back(connection.number);
}

void ConnectionPool::add_unsent(Connection& connection) {
  if (connection.is_in_unsent) return;
  connection.is_in_unsent = true;
  unsent_.push_back(connection.number);
}

}  // namespace muster::serving
