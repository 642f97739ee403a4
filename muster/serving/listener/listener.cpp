#include "muster/serving/listener/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <future>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/serving/listener/event_loop.h"
#include "muster/serving/listener/this_host.h"
#include "muster/serving/listener/tls_context.h"

namespace muster::serving {
namespace {

using boost::system::error_code;
using Descriptor =
    boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type>;
using Clock = std::chrono::steady_clock;

constexpr int kAcceptsAtOnce = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};

void set_options_of_tcp(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

bool is_lack_of_room(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

/// Says when nothing holds a connection or waits for one.
struct Listener::Gone {
  std::promise<void> said{};
};

/// State of the listener, which pending operations hold.
struct Listener::State : std::enable_shared_from_this<Listener::State> {
  State(EventLoop& loop, ListenerOptions given, Connect its_connect,
        std::shared_ptr<OpenConnections> its_open)
      : open(std::move(its_open)),
        options(std::move(given)),
        connect(std::move(its_connect)),
        watch_timer(loop.io()),
        pause(loop.io()) {
    if (options.tls.enabled()) tls = tls_context(options.tls, options.tls_protocol);
  }

  // Goes last: that is what the destructor of the listener waits for.
  const std::shared_ptr<OpenConnections> open;
  const ListenerOptions options;
  const Connect connect;

  std::mutex mutex{};
  // The rest is under the mutex.
  std::shared_ptr<ssl_ctx_st> tls{};
  std::vector<std::unique_ptr<Descriptor>> sockets{};
  boost::asio::steady_timer watch_timer;
  boost::asio::steady_timer pause;
  bool is_closed = false;
  bool is_watched = true;
  // Whether the last accept failed for want of descriptors or memory.
  bool is_exhausted = false;

  // Under the mutex.
  void wait_to_accept(Descriptor& socket) {
    socket.async_wait(Descriptor::wait_read,
                      [self = shared_from_this(), &socket](error_code error) {
                        if (!error) self->accept_some(socket);
                      });
  }

  void accept_some(Descriptor& socket) {
    std::unique_lock lock(mutex);
    for (int i = 0; i < kAcceptsAtOnce && !is_closed; ++i) {
      auto accepted = accept_one(socket);
      if (!accepted) break;
      lock.unlock();
      begin(std::move(*accepted));
      lock.lock();
    }
    if (is_closed) return;
    if (!std::exchange(is_exhausted, false)) return wait_to_accept(socket);
    // Those who are here go first.
    pause.expires_after(kAcceptPause);
    pause.async_wait([self = shared_from_this(), &socket](error_code stopped) {
      const std::lock_guard again(self->mutex);
      if (!stopped && !self->is_closed) self->wait_to_accept(socket);
    });
  }

  // Under the mutex. Nothing when none waits.
  std::optional<AcceptedSocket> accept_one(Descriptor& socket) {
    AcceptedSocket out;
    socklen_t size = sizeof out.peer;
    auto* const peer = reinterpret_cast<sockaddr*>(&out.peer);
    out.descriptor = OwnedDescriptor(
        ::accept4(socket.native_handle(), peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (out.descriptor.number() < 0) {
      is_exhausted = is_lack_of_room(errno);
      return std::nullopt;
    }
    const bool is_tcp = out.peer.ss_family != AF_UNIX;
    if (is_tcp) {
      set_options_of_tcp(out.descriptor.number());
      out.tls = tls;
    }
    out.is_from_this_host = is_this_host(*peer);
    out.open = open;
    return out;
  }

  void begin(AcceptedSocket socket) const {
    const std::size_t now = open->count();
    if (now >= options.max_connections + options.told_connections) return;
    socket.is_too_many = now >= options.max_connections;
    const auto connection = connect(std::move(socket));
    if (connection && open->add(*connection)) connection->start();
  }

  // One look at all connections now and then: a timer for each would cost every request.
  void watch() {
    const std::lock_guard lock(mutex);
    if (!is_watched) return;
    watch_timer.expires_after(options.look_interval);
    watch_timer.async_wait([self = shared_from_this()](error_code stopped) {
      if (stopped) return;
      const auto now = Clock::now();
      for (const auto& connection : self->open->all()) connection->look(now);
      self->watch();
    });
  }

  void close() {
    const std::lock_guard lock(mutex);
    if (std::exchange(is_closed, true)) return;
    // Handlers that wait for the sockets hold this: it is destroyed once they have run.
    for (const auto& socket : sockets) {
      error_code ignored;
      socket->close(ignored);
    }
    pause.cancel();
    if (!options.socket_path.empty()) ::unlink(options.socket_path.c_str());
  }

  void end_watch() {
    const std::lock_guard lock(mutex);
    is_watched = false;
    watch_timer.cancel();
  }
};

Listener::Listener(EventLoop& loop, ListenerOptions options, Connect connect)
    : gone_(std::make_shared<Gone>()) {
  std::shared_ptr<OpenConnections> open(new OpenConnections, [gone = gone_](OpenConnections* old) {
    delete old;
    gone->said.set_value();
  });
  const auto state =
      std::make_shared<State>(loop, std::move(options), std::move(connect), std::move(open));
  // Steps that may fail come before anything waits.
  std::vector<OwnedDescriptor> sockets;
  sockets.push_back(listen_on_port(state->options.address, state->options.port));
  port_ = port_of(sockets.front());
  if (const std::string& path = state->options.socket_path; !path.empty()) {
    sockets.push_back(listen_on_path(path));
  }
  state_ = state;
  {
    const std::lock_guard lock(state->mutex);
    for (OwnedDescriptor& socket : sockets) {
      state->sockets.push_back(
          std::make_unique<Descriptor>(loop.io().get_executor(), socket.number()));
      socket.release();
      state->wait_to_accept(*state->sockets.back());
    }
  }
  state->watch();
}

Listener::~Listener() {
  begin_drain();
  close_all();
  state_->end_watch();
  auto gone = gone_->said.get_future();
  state_.reset();
  gone.wait();
}

std::size_t Listener::connections() const { return state_->open->count(); }

void Listener::set_certificates(const TlsOptions& options) {
  std::shared_ptr<ssl_ctx_st> context = tls_context(options, state_->options.tls_protocol);
  const std::lock_guard lock(state_->mutex);
  if (!state_->tls) throw FailedPrecondition("the server was started without TLS");
  state_->tls = std::move(context);
}

void Listener::begin_drain() {
  state_->open->begin_drain();
  state_->close();
  for (const auto& connection : state_->open->all()) connection->drain();
}

bool Listener::drain(const Deadline& deadline) {
  begin_drain();
  return state_->open->wait_until_empty(deadline);
}

void Listener::close_all() {
  for (const auto& connection : state_->open->all()) connection->close();
}

}  // namespace muster::serving
