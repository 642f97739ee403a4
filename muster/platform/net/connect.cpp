#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/platform/net/address_internal.h"
#include "muster/platform/net/connection.h"
#include "muster/platform/net/connection_internal.h"
#include "muster/platform/net/handshake_internal.h"
#include "muster/platform/net/tls_socket_internal.h"

namespace muster::net {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{200};

Deadline earlier(const Deadline& a, const Deadline& b) { return a.time() < b.time() ? a : b; }

/// Why a try came to nothing.
struct Failure {
  ErrorCode code = ErrorCode::kUnavailable;
  std::string reason{};
  /// Whether it may be otherwise a moment later.
  bool passing = true;
};

Failure failure_of(Refusal refusal, const std::string& reason) {
  switch (refusal) {
    case Refusal::kWrongRun:
      return {ErrorCode::kFailedPrecondition, reason, /*passing=*/true};
    case Refusal::kWrongSecret:
      return {ErrorCode::kPermissionDenied, reason, /*passing=*/false};
    default:
      return {ErrorCode::kFailedPrecondition, reason, /*passing=*/false};
  }
}

[[noreturn]] void throw_failure(const Failure& failure, const std::string& doing) {
  switch (failure.code) {
    case ErrorCode::kFailedPrecondition:
      throw FailedPrecondition("{}: it {}", doing, failure.reason);
    case ErrorCode::kPermissionDenied:
      throw PermissionDenied("{}: it {}", doing, failure.reason);
    default:
      throw Unavailable("{}: it {}", doing, failure.reason);
  }
}

/// Tries to reach one address until a task of the run answers there.
class Connector {
 public:
  Connector(const std::string& address, const Identity& self, std::string_view purpose,
            const Deadline& deadline, const ConnectionOptions& options)
      : address_(address), self_(self), purpose_(purpose), deadline_(deadline), options_(options) {
    check(self);
    parse_host_port(address);
  }

  struct Reached {
    std::shared_ptr<Socket> socket;
    std::string task;
  };

  Reached connect() {
    const auto start = Deadline::Clock::now();
    std::optional<BlockingRegion> region;
    for (milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
      if (auto reached = attempt()) return std::move(*reached);
      const Failure failure = last();
      const std::chrono::duration<double> spent = Deadline::Clock::now() - start;
      if (!failure.passing) throw_failure(failure, fmt::format("cannot connect to {}", target()));
      if (deadline_.expired()) {
        throw_failure(failure, fmt::format("could not connect to {} within {:.1f} s", target(),
                                           spent.count()));
      }
      if (!region) region.emplace([this] { return describe_wait(); });
      rest(earlier(deadline_, Deadline::after(pause)));
    }
  }

 private:
  std::string target() const {
    return options_.peer_task.empty() ? address_
                                      : fmt::format("{} at {}", options_.peer_task, address_);
  }

  // Called by the watchdog's thread.
  std::string describe_wait() { return fmt::format("{}, which {}", target(), last().reason); }

  Failure last() {
    std::lock_guard lock(mutex_);
    return last_;
  }

  /// The caller's deadline came in the middle of a try: what earlier tries found says more.
  void fail_late(Failure failure, const Deadline& until) {
    if (last().reason.empty() || until.time() != deadline_.time()) fail(std::move(failure));
  }

  void fail(Failure failure) {
    // A wait for an earlier run to go away is logged once.
    const bool told = failure.code == ErrorCode::kUnavailable || !failure.passing ||
                      std::exchange(told_of_other_run_, true);
    if (!told) log::warning("tries again to connect: {} {}", target(), failure.reason);
    std::lock_guard lock(mutex_);
    last_ = std::move(failure);
  }

  void rest(const Deadline& until) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_until(lock, options_.stop, until.time(), [] { return false; });
    if (options_.stop.stop_requested()) {
      throw Cancelled("asked to stop while connecting to {}", target());
    }
  }

  std::optional<Reached> attempt() {
    try {
      const Deadline until = earlier(Deadline::after(options_.handshake_timeout), deadline_);
      for (const Endpoint& endpoint : resolve(address_, Use::kConnect)) {
        int error = 0;
        auto socket = connect_to(endpoint, until, error);
        if (socket && self_.tls) {
          socket = std::make_shared<TlsSocket>(*socket, *self_.tls, TlsSocket::Side::kClient);
        }
        if (socket) return introduce(std::move(socket), until);
        fail_late({ErrorCode::kUnavailable,
                   fmt::format("is not there ({})", std::generic_category().message(error))},
                  error == ETIMEDOUT ? until : Deadline::never());
      }
    } catch (const Unavailable& error) {
      fail({ErrorCode::kUnavailable, fmt::format("cannot be found ({})", error.message())});
    }
    return std::nullopt;
  }

  std::optional<Reached> introduce(std::shared_ptr<Socket> socket, const Deadline& until) {
    ClientHandshake handshake(self_, purpose_, options_.peer_task);
    if (!write(*socket, handshake.hello(), until)) return std::nullopt;
    std::array<char, 512> bytes;
    while (handshake.wanted() > 0) {
      const auto count =
          read(*socket, bytes.data(), std::min(bytes.size(), handshake.wanted()), until);
      if (!count) return std::nullopt;
      if (!write(*socket, handshake.take({bytes.data(), *count}), until)) return std::nullopt;
    }
    if (handshake.proved()) return Reached{std::move(socket), handshake.peer_task()};
    fail(failure_of(handshake.refusal(), handshake.reason()));
    return std::nullopt;
  }

  bool write(Socket& socket, std::string_view bytes, const Deadline& until) {
    while (!bytes.empty() || socket.has_unsent()) {
      const iovec piece{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
      const Moved moved = socket.send({&piece, 1});
      bytes.remove_prefix(moved.bytes);
      if (moved.error != 0 && !moved.would_block()) return lost(socket, moved.error);
      if (moved.would_block() && !socket.wait(POLLOUT, until, silence_)) return silent(until);
    }
    return true;
  }

  std::optional<std::size_t> read(Socket& socket, char* to, std::size_t size,
                                  const Deadline& until) {
    for (;;) {
      const iovec piece{.iov_base = to, .iov_len = size};
      const Moved moved = socket.receive({&piece, 1});
      if (moved.bytes > 0) return moved.bytes;
      if (!moved.would_block()) {
        lost(socket, moved.error);
        return std::nullopt;
      }
      if (!socket.wait(POLLIN, until, silence_)) {
        silent(until);
        return std::nullopt;
      }
    }
  }

  bool lost(const Socket& socket, int error) {
    if (const std::string failure = socket.failure(); !failure.empty()) {
      fail({socket.is_wrong_key() ? ErrorCode::kPermissionDenied : ErrorCode::kFailedPrecondition,
            failure, /*passing=*/false});
      return false;
    }
    fail({ErrorCode::kUnavailable,
          fmt::format("hung up before it had said who it is ({})",
                      error == 0 ? "end of stream" : std::generic_category().message(error))});
    return false;
  }

  bool silent(const Deadline& until) {
    fail_late({ErrorCode::kUnavailable,
               "takes connections but does not answer: it is stopped, overloaded, or no muster"},
              until);
    return false;
  }

  const std::string address_;
  const Identity& self_;
  const std::string purpose_;
  const Deadline deadline_;
  const ConnectionOptions& options_;
  const WaitReason silence_ = [this] { return fmt::format("{} to say who it is", target()); };
  bool told_of_other_run_ = false;
  std::mutex mutex_;
  Failure last_;
};

}  // namespace

std::unique_ptr<Connection> Connection::connect(const std::string& address, const Identity& self,
                                                std::string_view purpose, const Deadline& deadline,
                                                const ConnectionOptions& options) {
  Connector connector(address, self, purpose, deadline, options);
  auto reached = connector.connect();
  auto state = std::make_shared<State>(std::move(reached.socket),
                                       fmt::format("{} at {}", reached.task, address), options);
  return std::unique_ptr<Connection>(
      new Connection(std::move(state), std::move(reached.task), std::string(purpose)));
}

}  // namespace muster::net
