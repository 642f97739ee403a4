#include "muster/platform/net/listener.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/platform/net/address_internal.h"
#include "muster/platform/net/connection_internal.h"
#include "muster/platform/net/handshake_internal.h"
#include "muster/platform/net/socket_internal.h"
#include "muster/platform/net/tls_socket_internal.h"
#include "muster/platform/net/waker.h"

namespace muster::net {
namespace {

// So many may be about to prove themselves at a time; one more, and the oldest is dropped. A peer
// of ours is done within a round trip, so those who stay are strangers.
constexpr std::size_t kMostGuests = 256;
// So much of what a refused stranger still sends is read, so that it gets to see the answer.
constexpr std::size_t kMostDropped = std::size_t{64} << 10;
constexpr int kBacklog = 1024;
constexpr std::chrono::milliseconds kNoDescriptorsPause{100};

[[noreturn]] void throw_listen_error(int error, const std::string& address) {
  switch (error) {
    case EADDRINUSE:
      throw Unavailable(
          "cannot listen at {}: the port is in use; end the process that has it, or give this task "
          "another port",
          address);
    case EADDRNOTAVAIL:
      throw FailedPrecondition(
          "cannot listen at {}: this machine has no such address; start the task where its address "
          "is, or correct the cluster",
          address);
    default:
      throw_errno(error, fmt::format("listening at {}", address));
  }
}

/// A socket that listens at the endpoint; null with `error` set when there is none to be had.
std::unique_ptr<Socket> listen_at(const Endpoint& endpoint, int& error) {
  const int descriptor = ::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    error = errno;
    return nullptr;
  }
  auto socket = std::make_unique<Socket>(descriptor);
  // A task that is started again takes its port though connections of the last one fade away there.
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool listens =
      ::bind(descriptor, endpoint.get(), endpoint.size) == 0 && ::listen(descriptor, kBacklog) == 0;
  error = listens ? 0 : errno;
  return listens ? std::move(socket) : nullptr;
}

std::unique_ptr<Socket> listen_at(const std::string& address) {
  int error = 0;
  for (const Endpoint& endpoint : resolve(address, Use::kListen)) {
    auto socket = listen_at(endpoint, error);
    if (socket) return socket;
    // A name may have an address of a family that this machine does not speak; a port that is
    // taken in one family is not to be shared with another process in the other.
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) break;
  }
  throw_listen_error(error, address);
}

std::string with_port(const std::string& address, int port) {
  return fmt::format("{}:{}", address.substr(0, address.rfind(':')), port);
}

/// A peer that has connected and has yet to prove its identity.
struct Guest {
  Guest(std::shared_ptr<Socket> connected, const Identity& self, const Admission& admits,
        const Deadline& until)
      : socket(std::move(connected)), handshake(self, admits), deadline(until) {}

  std::shared_ptr<Socket> socket;
  ServerHandshake handshake;
  Deadline deadline;
  bool spoke = false;
  bool leaving = false;  // Refused and told; what it still sends is dropped.
  std::size_t dropped = 0;
};

/// Sends all or, when the peer does not take so little, nothing that matters.
bool send_small(Socket& socket, std::string_view bytes) {
  if (bytes.empty()) return true;
  const iovec piece{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  return socket.send({&piece, 1}).bytes == bytes.size();
}

}  // namespace

struct Listener::Impl {
  /// A peer's thread.
  struct Handler {
    std::atomic<bool> done = false;
    std::jthread thread;
  };

  Impl(const std::string& where, Identity who, OnConnection on_peer, const ConnectionOptions& how)
      : self(std::move(who)),
        on_connection(std::move(on_peer)),
        options(how),
        socket(listen_at(where)),
        address(with_port(where, socket->local().port())) {
    thread = std::jthread([this] { run(); });
  }

  ~Impl() {
    close();
    std::list<Handler> ending;
    {
      std::lock_guard lock(mutex);
      ending.splice(ending.begin(), handlers);
    }
    const BlockingRegion region(
        [this] { return fmt::format("the threads of the connections at {} to end", address); });
    ending.clear();
  }

  void close() {
    std::lock_guard closing(close_mutex);
    if (thread.joinable()) {
      stopping = true;
      wake.set();
      thread.join();
      socket.reset();
    }
    std::lock_guard lock(mutex);
    for (const auto& taken : connections) {
      const auto state = taken.lock();
      if (state && !state->detached) state->close();
    }
  }

  /// Loop of the one thread that accepts connections and runs their handshakes.
  void run() {
    while (!stopping) {
      try {
        turn();
      } catch (...) {
        log::error("listening at {}: {}", address, describe(std::current_exception()).message);
        guests.clear();
      }
    }
    guests.clear();
  }

  void turn() {
    const bool accepts = accept_again.expired();
    std::vector<pollfd> watched;
    watched.reserve(2 + guests.size());
    watched.push_back({.fd = wake.descriptor(), .events = POLLIN, .revents = 0});
    watched.push_back({.fd = accepts ? socket->descriptor() : -1, .events = POLLIN, .revents = 0});
    Deadline next = accepts ? Deadline::never() : accept_again;
    for (const Guest& guest : guests) {
      watched.push_back({.fd = guest.socket->descriptor(), .events = POLLIN, .revents = 0});
      if (guest.deadline.time() < next.time()) next = guest.deadline;
    }
    poll_until(watched, next);
    auto seen = watched.begin() + 2;
    for (auto guest = guests.begin(); guest != guests.end(); ++seen) {
      const bool stays = (seen->revents == 0 || hear(*guest)) && !is_late(*guest);
      guest = stays ? std::next(guest) : guests.erase(guest);
    }
    if (watched[1].revents != 0) accept_all();
  }

  void accept_all() {
    // A bounded number a turn, so that a flood of connections does not keep the others unheard.
    for (std::size_t i = 0; i < kMostGuests; ++i) {
      const int descriptor = ::accept4(socket->descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor >= 0) {
        if (guests.size() >= kMostGuests) drop_oldest();
        auto connected = std::make_shared<Socket>(descriptor);
        set_no_delay(*connected);
        if (self.tls) {
          connected = std::make_shared<TlsSocket>(*connected, *self.tls, TlsSocket::Side::kServer);
        }
        guests.emplace_back(std::move(connected), self, options.admits,
                            Deadline::after(options.handshake_timeout));
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        no_descriptors(errno);
        return;
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return;
      }  // Otherwise that one connection was lost before it was taken.
    }
  }

  void no_descriptors(int error) {
    if (!std::exchange(told_of_descriptors, true)) {
      log::warning("cannot take a connection at {}: {}; raise the limit of open files (ulimit -n)",
                   address, std::generic_category().message(error));
    }
    if (guests.empty()) {
      accept_again = Deadline::after(kNoDescriptorsPause);
    } else {
      drop_oldest();
    }
  }

  void drop_oldest() {
    refuse_silent(guests.front());
    guests.pop_front();
  }

  /// False when the guest is to go, one way or the other.
  bool hear(Guest& guest) {
    while (hear_once(guest)) {
      if (!guest.socket->has_ahead()) return true;
    }
    return false;
  }

  /// Reads what a guest has sent, and answers.
  bool hear_once(Guest& guest) {
    std::array<char, 4096> bytes;
    const std::size_t most =
        guest.leaving ? bytes.size() : std::min(bytes.size(), guest.handshake.wanted());
    const iovec room{.iov_base = bytes.data(), .iov_len = most};
    // Who is leaving is understood no longer, if it was.
    const Moved moved = guest.leaving ? guest.socket->Socket::receive({&room, 1})
                                      : guest.socket->receive({&room, 1});
    if (moved.would_block()) return true;
    if (moved.error == EBADMSG) {
      log_once(guest, Refusal::kNoTls, "it " + guest.socket->failure());
      return leave(guest);
    }
    if (moved.bytes == 0) {
      if (!guest.leaving) refuse_silent(guest);
      return false;
    }
    guest.spoke = true;
    if (guest.leaving) return (guest.dropped += moved.bytes) < kMostDropped;
    const std::string answer = guest.handshake.take({bytes.data(), moved.bytes});
    if (guest.handshake.refusal() != Refusal::kNone) {
      log_once(guest, guest.handshake.refusal(), guest.handshake.reason());
      return see_off(guest, answer);
    }
    if (!send_small(*guest.socket, answer)) return false;
    if (!guest.handshake.proved()) return true;
    welcome(guest);
    return false;
  }

  bool see_off(Guest& guest, const std::string& answer) {
    if (answer.empty()) return false;
    send_small(*guest.socket, answer);
    return leave(guest);
  }

  /// Until it has seen why.
  static bool leave(Guest& guest) {
    ::shutdown(guest.socket->descriptor(), SHUT_WR);
    guest.leaving = true;
    return true;
  }

  bool is_late(Guest& guest) {
    if (!guest.deadline.expired()) return false;
    if (!guest.leaving) refuse_silent(guest);
    return true;
  }

  void refuse_silent(Guest& guest) {
    log_once(guest, Refusal::kSilence,
             guest.spoke ? "it stopped before it had said who it is" : "it did not say anything");
  }

  void log_once(const Guest& guest, Refusal kind, const std::string& reason) {
    const std::string from = guest.socket->remote().to_string();
    if (logged.insert(kind).second) {
      log::warning("refused a connection from {}: {} (said once for those alike)", from, reason);
    } else {
      log::debug("refused a connection from {}: {}", from, reason);
    }
  }

  void welcome(Guest& guest) {
    auto state = std::make_shared<Connection::State>(
        guest.socket,
        fmt::format("{} at {}", guest.handshake.peer_task(), guest.socket->remote().to_string()),
        options);
    std::unique_ptr<Connection> connection(
        new Connection(state, guest.handshake.peer_task(), guest.handshake.purpose()));
    std::list<Handler> ended;
    std::lock_guard lock(mutex);
    for (auto handler = handlers.begin(); handler != handlers.end();) {
      const auto next = std::next(handler);
      if (handler->done) ended.splice(ended.end(), handlers, handler);
      handler = next;
    }
    std::erase_if(connections, [](const auto& taken) { return taken.expired(); });
    connections.push_back(std::move(state));
    Handler& handler = handlers.emplace_back();
    handler.thread = std::jthread([this, &handler, given = std::move(connection)]() mutable {
      handle(std::move(given));
      handler.done = true;
    });
  }

  void handle(std::unique_ptr<Connection> connection) {
    const std::string peer = connection->peer();
    const std::string purpose = connection->purpose();
    try {
      on_connection(std::move(connection));
    } catch (...) {
      log::error("the connection with {} ({}) failed: {}", peer, purpose,
                 describe(std::current_exception()).message);
    }
  }

  const Identity self;
  const OnConnection on_connection;
  const ConnectionOptions options;
  std::unique_ptr<Socket> socket;
  const std::string address;
  Waker wake;

  // The accepting thread's own, oldest first.
  std::list<Guest> guests;
  std::set<Refusal> logged;
  bool told_of_descriptors = false;
  Deadline accept_again = Deadline::after({});

  std::mutex mutex;
  std::list<Handler> handlers;
  std::vector<std::weak_ptr<Connection::State>> connections;
  std::mutex close_mutex;
  std::atomic<bool> stopping = false;
  std::jthread thread;
};

Listener::Listener(const std::string& address, Identity self, OnConnection on_connection,
                   const ConnectionOptions& options) {
  check(self);
  impl_ = std::make_unique<Impl>(address, std::move(self), std::move(on_connection), options);
}

Listener::~Listener() = default;

const std::string& Listener::address() const { return impl_->address; }

void Listener::close() { impl_->close(); }

bool is_loopback(const std::string& address) {
  try {
    const auto endpoints = resolve(address, Use::kListen);
    return !endpoints.empty() && std::ranges::all_of(endpoints, &Endpoint::is_loopback);
  } catch (const Unavailable&) {
    return false;
  }
}

}  // namespace muster::net
