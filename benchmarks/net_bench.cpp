#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/error.h"
#include "muster/platform/net/connection.h"
#include "muster/platform/net/listener.h"
#include "muster/platform/net/tls.h"

// Messages between two tasks over loopback, over the same bytes through a plain TCP stream.

namespace muster {
namespace {

constexpr std::size_t kTotalBytes = 64'000'000;
constexpr std::size_t kFrameBytes = 1'000'000;
constexpr int kRoundTrips = 2'000;
constexpr std::size_t kSmallBytes = 64;

using Bytes = std::vector<std::byte>;

/// Memory whose pages are there.
Bytes touched(std::size_t size) { return Bytes(size, std::byte{1}); }

/// Two ends of a plain TCP connection, blocking, as one would write it by hand; in pieces as large
/// as the frames, which was seen to be faster than one call for all.
class RawPair {
 public:
  RawPair() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    check(::bind(listener, address, size));
    check(::listen(listener, 1));
    check(::getsockname(listener, address, &size));
    ends_[0] = ::socket(AF_INET, SOCK_STREAM, 0);
    check(::connect(ends_[0], address, size));
    ends_[1] = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    const int on = 1;
    for (const int end : ends_) {
      check(end);
      check(::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
    }
  }
  ~RawPair() {
    for (const int end : ends_) ::close(end);
  }
  RawPair(const RawPair&) = delete;
  RawPair& operator=(const RawPair&) = delete;

  void send(std::size_t end, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count =
          ::send(ends_[end], bytes.data(), std::min(bytes.size(), kFrameBytes), 0);
      check(static_cast<int>(std::min<ssize_t>(count, 0)));
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }
  void receive(std::size_t end, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count =
          ::recv(ends_[end], bytes.data(), std::min(bytes.size(), kFrameBytes), 0);
      check(count > 0 ? 0 : -1);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

 private:
  static void check(int result) {
    if (result < 0) throw_errno(errno, "plain TCP");
  }
  int ends_[2] = {-1, -1};
};

/// Two ends of a connection of ours.
class OurPair {
 public:
  explicit OurPair(const std::shared_ptr<const net::TlsContext>& tls = nullptr)
      : listener_("127.0.0.1:0", {.task = "ps:0", .run_id = "bench", .secret = "s", .tls = tls},
                  [this](std::unique_ptr<net::Connection> taken) {
                    accepted_.set_value(std::move(taken));
                  }) {
    ends_[0] = net::Connection::connect(
        listener_.address(), {.task = "worker:0", .run_id = "bench", .secret = "s", .tls = tls},
        "bench", Deadline::after(std::chrono::seconds(10)));
    ends_[1] = accepted_.get_future().get();
  }
  net::Connection& operator[](std::size_t end) { return *ends_[end]; }

 private:
  std::promise<std::unique_ptr<net::Connection>> accepted_;
  net::Listener listener_;
  std::unique_ptr<net::Connection> ends_[2];
};

void send_frames(net::Connection& connection, const Bytes& from) {
  for (std::size_t at = 0; at < from.size(); at += kFrameBytes) {
    connection.send(1, "gradients", std::span(from).subspan(at, kFrameBytes), Deadline::never());
  }
}

void receive_frames(net::Connection& connection, Bytes& to) {
  for (std::size_t at = 0; at < to.size(); at += kFrameBytes) {
    const auto info = connection.receive_header(Deadline::never());
    if (!info || info->body_bytes != kFrameBytes) throw Internal("a frame is missing");
    connection.receive_body(std::span(to).subspan(at, kFrameBytes));
  }
}

/// The same with a buffer a frame instead of memory of the caller's.
void receive_buffers(net::Connection& connection) {
  for (std::size_t at = 0; at < kTotalBytes; at += kFrameBytes) {
    const auto frame = connection.receive(Deadline::never());
    if (!frame || frame->body.size() != kFrameBytes) throw Internal("a frame is missing");
    bench::keep(frame->body.data()[kFrameBytes - 1]);
  }
}

void add_rate(bench::Report& report, const std::string& name, double bytes,
              const bench::Pair& pair) {
  report.add(
      {name, bytes / 1e9 / pair.work_seconds, "GB/s", bytes / 1e9 / pair.limit_seconds, 0.8, 0.9});
}

void measure_one_way(bench::Report& report) {
  const Bytes from = touched(kTotalBytes);
  Bytes to = touched(kTotalBytes);
  OurPair ours;
  const RawPair raw;
  const auto plain = [&] {
    const std::jthread sender([&] { raw.send(0, from); });
    raw.receive(1, to);
  };
  const std::string placed = "64 MB one way in 1 MB frames, over a TCP stream";
  if (report.wants(placed)) {
    add_rate(report, placed, kTotalBytes,
             bench::median_pair(
                 [&] {
                   const std::jthread sender([&] { send_frames(ours[0], from); });
                   receive_frames(ours[1], to);
                 },
                 plain, report.effort()));
  }
  const std::string buffers = "64 MB one way in 1 MB frames into buffers, over a TCP stream";
  if (report.wants(buffers)) {
    add_rate(report, buffers, kTotalBytes,
             bench::median_pair(
                 [&] {
                   const std::jthread sender([&] { send_frames(ours[0], from); });
                   receive_buffers(ours[1]);
                 },
                 plain, report.effort()));
  }
}

/// Keeps this thread, and those it starts, on one processor.
class OneProcessor {
 public:
  OneProcessor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    int first = 0;
    while (!CPU_ISSET(first, &before_)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~OneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_{};
};

void measure_tls(bench::Report& report) {
  const std::string name = "64 MB one way over TLS 1.3, over the same without, on one processor";
  if (!report.wants(name)) return;
  const Bytes from = touched(kTotalBytes);
  Bytes to = touched(kTotalBytes);
  const OneProcessor one;
  OurPair encrypted(net::TlsContext::from_secret("s"));
  OurPair plain;
  const auto move = [&](OurPair& pair) {
    const std::jthread sender([&] { send_frames(pair[0], from); });
    receive_frames(pair[1], to);
  };
  const auto pair =
      bench::median_pair([&] { move(encrypted); }, [&] { move(plain); }, report.effort());
  report.add({name, kTotalBytes / 1e9 / pair.work_seconds, "GB/s",
              kTotalBytes / 1e9 / pair.limit_seconds, 0.5, 0.6});
}

void measure_both_ways(bench::Report& report) {
  const std::string name = "64 MB each way at once in 1 MB frames, over TCP streams";
  if (!report.wants(name)) return;
  const Bytes from = touched(kTotalBytes);
  Bytes to[2] = {touched(kTotalBytes), touched(kTotalBytes)};
  OurPair ours;
  const RawPair raw;
  add_rate(report, name, 2.0 * kTotalBytes,
           bench::median_pair(
               [&] {
                 const std::jthread first([&] { send_frames(ours[0], from); });
                 const std::jthread second([&] { send_frames(ours[1], from); });
                 const std::jthread third([&] { receive_frames(ours[0], to[0]); });
                 receive_frames(ours[1], to[1]);
               },
               [&] {
                 const std::jthread first([&] { raw.send(0, from); });
                 const std::jthread second([&] { raw.send(1, from); });
                 const std::jthread third([&] { raw.receive(0, to[0]); });
                 raw.receive(1, to[1]);
               },
               report.effort()));
}

void measure_round_trips(bench::Report& report) {
  const std::string name = "round trips of 64 bytes, over TCP";
  if (!report.wants(name)) return;
  const Bytes body = touched(kSmallBytes);
  OurPair ours;
  const RawPair raw;
  const auto pair = bench::median_pair(
      [&] {
        const std::jthread answers([&] {
          for (int i = 0; i < kRoundTrips; ++i) {
            const auto frame = ours[1].receive(Deadline::never());
            ours[1].send(frame->type, frame->header, frame->body.bytes(), Deadline::never());
          }
        });
        for (int i = 0; i < kRoundTrips; ++i) {
          ours[0].send(1, "", body, Deadline::never());
          bench::keep(ours[0].receive(Deadline::never())->type);
        }
      },
      [&] {
        const std::jthread answers([&] {
          Bytes bytes(kSmallBytes);
          for (int i = 0; i < kRoundTrips; ++i) {
            raw.receive(1, bytes);
            raw.send(1, bytes);
          }
        });
        Bytes bytes(kSmallBytes);
        for (int i = 0; i < kRoundTrips; ++i) {
          raw.send(0, body);
          raw.receive(0, bytes);
        }
      },
      report.effort());
  fmt::print("a round trip of 64 bytes: {:.1f} us, plain TCP {:.1f} us\n",
             pair.work_seconds / kRoundTrips * 1e6, pair.limit_seconds / kRoundTrips * 1e6);
  report.add({name, kRoundTrips / pair.work_seconds / 1e3, "thousand/s",
              kRoundTrips / pair.limit_seconds / 1e3, 0.6, 0.8});
}

int run(int argc, char** argv) {
  bench::Report report(argc, argv);
  measure_one_way(report);
  measure_tls(report);
  measure_both_ways(report);
  measure_round_trips(report);
  return report.finish();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  try {
    return muster::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
