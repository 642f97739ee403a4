#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/wait.h"
#include "muster/serving/grpc/grpc_framing.h"
#include "muster/serving/grpc/http2_session.h"
#include "muster/serving/http/http_server.h"
#include "muster/serving/listener/event_loop.h"

/// gRPC over HTTP/2: connections, calls and threads. What calls mean is the business of methods.
namespace muster::serving {

/// Metadata of a call: its deadline, credentials and origin.
struct GrpcContext {
  Deadline deadline = Deadline::never();
  /// The header of that name; empty when there is none.
  std::string authorization{};
  /// That of x-muster-key.
  std::string key{};
  bool is_from_this_host = false;
};

/// A call whose request is whole. It may be answered from any thread, one at a time, until the
/// transport is destroyed, which waits for that.
class GrpcCall {
 public:
  virtual ~GrpcCall() = default;

  virtual const GrpcContext& context() const = 0;
  /// The message. Views of it hold until the call is finished.
  virtual std::string_view request() const = 0;
  /// The client has gone, or does not want the answer any more.
  virtual bool is_cancelled() const = 0;
  /// Called once when that happens before the call is finished; at once if it has happened.
  virtual void on_cancel(std::function<void()> act) = 0;

  /// A message of an answer that has several.
  virtual void send(std::string message) = 0;
  /// One of these ends the call; what follows it has no effect.
  virtual void answer(std::string message) = 0;
  virtual void finish(GrpcStatus status) = 0;
};
using GrpcCallPtr = std::shared_ptr<GrpcCall>;

enum class GrpcWork {
  /// In the thread that reads: takes little time, or has the rest done elsewhere.
  kShort,
  /// As kShort for a small message that is not compressed, else as kLong: reads messages that take
  /// time to read.
  kBySize,
  /// In a thread of its own: computes, or waits for something.
  kLong,
};

/// The answer to a message of a stream, or a failure, which ends the stream.
using GrpcReply = std::function<void(std::string answer, const std::exception_ptr& failure)>;

struct GrpcMethod {
  GrpcWork work = GrpcWork::kLong;
  /// For calls of one message: answers it, now or later. What it throws is answered as a status.
  std::function<void(const GrpcCallPtr& call)> handle{};
  /// For streams, in place of `handle`: calls `reply` once, now or later, from any thread; only
  /// then comes the next message. In place of that it may throw. The view holds until it returns.
  std::function<void(const GrpcContext& context, std::string_view message, GrpcReply reply)>
      converse{};
  /// For streams: throws when the caller may not call it.
  std::function<void(const GrpcContext& context)> check{};
};

/// By path: "/package.Service/Method".
using GrpcMethods = std::map<std::string, GrpcMethod, std::less<>>;

struct GrpcTransportOptions {
  /// Empty: all addresses of this host.
  std::string address{};
  /// 0: any that is free.
  std::uint16_t port = 0;
  /// Also listens on this Unix socket, without TLS; empty: not.
  std::string socket_path{};
  TlsOptions tls{};
  /// Maximum size of a request message, both compressed and decompressed.
  std::size_t max_message_bytes = std::size_t{128} << 20;
  /// Maximum size of the messages of all calls together, until they are answered and sent.
  std::size_t max_total_bytes = std::size_t{1} << 30;
  /// Threads for long work, and how many calls may wait for one.
  std::size_t threads = 64;
  /// More are closed as they come.
  std::size_t max_connections = 20'000;
  Http2Session::Options http2{};
  /// Until the first request, from the connection's begin.
  std::chrono::milliseconds handshake_timeout{120'000};
  /// How long a message may stop in the middle, and an answer may wait for its client to read.
  std::chrono::milliseconds stall_timeout{120'000};
  /// Connections are sent away after so long without a call, and after so long in all; their calls
  /// then have the grace to end. Nothing: never.
  std::optional<std::chrono::milliseconds> max_idle{};
  std::optional<std::chrono::milliseconds> max_age{};
  std::optional<std::chrono::milliseconds> max_age_grace{};
  /// Asks so often whether the client is there, and closes when it does not say so in time.
  std::optional<std::chrono::milliseconds> keepalive_time{};
  std::chrono::milliseconds keepalive_timeout{20'000};
};

class GrpcTransport {
 public:
  /// Listens from now on; the threads of the loop read, and answer. Throws Unavailable when the
  /// port is taken, InvalidArgument for invalid certificates or addresses.
  GrpcTransport(std::shared_ptr<EventLoop> loop, GrpcTransportOptions options, GrpcMethods methods);
  /// Closes what drain() has left, and waits for calls that are being answered.
  ~GrpcTransport();
  GrpcTransport(const GrpcTransport&) = delete;
  GrpcTransport& operator=(const GrpcTransport&) = delete;

  std::uint16_t port() const;
  std::size_t connections() const;

  /// For connections from now on. Throws InvalidArgument for invalid certificates,
  /// FailedPrecondition when it was started without any.
  void set_certificates(const TlsOptions& options);

  /// Takes no more connections, sends GOAWAY to those there are, and ends streams that wait for
  /// their client. Returns at once.
  void begin_drain();
  /// The same, waits for the calls in flight, and closes what is left at the end of the time: false
  /// then.
  bool drain(const Deadline& deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
