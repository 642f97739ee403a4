#include "muster/net/heartbeat.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/wait.h"

namespace muster::net {
namespace {

using Clock = Deadline::Clock;
using Kind = HeartbeatEnd::Kind;

constexpr std::uint32_t kBeatType = 1;

std::unique_ptr<Connection> checked(std::unique_ptr<Connection> connection,
                                    const HeartbeatOptions& options) {
  if (options.interval <= std::chrono::milliseconds(0) || options.limit <= options.interval) {
    throw InvalidArgument(
        "heartbeats need an interval above 0 and a limit above the interval: {} ms, {} ms",
        options.interval.count(), options.limit.count());
  }
  return connection;
}

}  // namespace

struct Heartbeat::Impl {
  Impl(std::unique_ptr<Connection> given, OnEnd when_it_ends, const HeartbeatOptions& how)
      : connection(checked(std::move(given), how)), on_end(std::move(when_it_ends)), options(how) {
    thread = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  ~Impl() {
    thread.request_stop();
    connection->close();
    thread.join();
  }

  void run(const std::stop_token& stop) {
    std::optional<HeartbeatEnd> end;
    try {
      end = beat_until_end(stop);
    } catch (...) {
      end = HeartbeatEnd{Kind::kLost, describe(std::current_exception()).message};
    }
    connection->close();
    if (end && !stop.stop_requested() && on_end) on_end(*end);
  }

  std::optional<HeartbeatEnd> beat_until_end(const std::stop_token& stop) {
    Clock::time_point next = Clock::now();
    while (!stop.stop_requested()) {
      if (Clock::now() >= next) {
        if (auto end = send_beat()) return end;
        next = Clock::now() + options.interval;
      }
      connection->wait_readable(Deadline::at(std::min(next, last.load() + options.limit)));
      // All that has come is heard before anybody is judged: it may be this process that was
      // stopped.
      while (connection->wait_readable(Deadline::after({}))) {
        if (!connection->receive(Deadline::after(options.limit))) {
          return left();
        }
        last = Clock::now();
        ++beats;
      }
      if (Clock::now() - last.load() > options.limit) return silent();
    }
    return std::nullopt;
  }

  std::optional<HeartbeatEnd> send_beat() {
    try {
      connection->send(kBeatType, "", Deadline::after(options.limit));
      return std::nullopt;
    } catch (const DeadlineExceeded&) {
      return silent();
    } catch (const Unavailable& error) {
      // A beat that meets a peer on its way out breaks the connection; its goodbye has come before.
      if (said_goodbye()) return left();
      return HeartbeatEnd{Kind::kLost, error.what()};
    }
  }

  bool said_goodbye() {
    try {
      while (connection->wait_readable(Deadline::after({}))) {
        if (!connection->receive(Deadline::after(options.limit))) return true;
      }
    } catch (const Error&) {
    }
    return false;
  }

  HeartbeatEnd left() const { return {Kind::kLeft, fmt::format("{} left", connection->peer())}; }

  HeartbeatEnd silent() const {
    const std::chrono::duration<double> age = Clock::now() - last.load();
    return {Kind::kSilent,
            fmt::format("{} has been silent for {:.1f} s: its process is stopped or hangs, or its "
                        "machine cannot be reached",
                        connection->peer(), age.count())};
  }

  const std::unique_ptr<Connection> connection;
  const OnEnd on_end;
  const HeartbeatOptions options;
  std::atomic<Clock::time_point> last = Clock::now();
  std::atomic<std::uint64_t> beats = 0;
  std::jthread thread;
};

Heartbeat::Heartbeat(std::unique_ptr<Connection> connection, OnEnd on_end,
                     const HeartbeatOptions& options)
    : impl_(std::make_unique<Impl>(std::move(connection), std::move(on_end), options)) {}

Heartbeat::~Heartbeat() = default;

std::uint64_t Heartbeat::beats() const { return impl_->beats; }

std::chrono::milliseconds Heartbeat::age() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - impl_->last.load());
}

const std::string& Heartbeat::peer() const { return impl_->connection->peer(); }

}  // namespace muster::net
