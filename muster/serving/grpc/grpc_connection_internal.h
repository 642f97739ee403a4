#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/serving/grpc/grpc_server_call_internal.h"
#include "muster/serving/grpc/grpc_transport.h"
#include "muster/serving/grpc/http2_session.h"
#include "muster/serving/listener/blocking_pool.h"
#include "muster/serving/listener/byte_budget.h"
#include "muster/serving/listener/client_connection.h"
#include "muster/serving/listener/event_loop.h"
#include "muster/serving/listener/listener.h"
#include "muster/serving/listener/tls_channel.h"

namespace muster::serving {

/// State that all connections of a server share.
struct GrpcShared {
  GrpcTransportOptions options{};
  GrpcMethods methods{};
  std::shared_ptr<ByteBudget> budget{};
  EventLoop* loop = nullptr;
  // For calls that take long.
  BlockingPool* threads = nullptr;
};

/// One connection. Its mutex guards the session and all that belongs to it; bytes are sent outside
/// of it by one thread at a time, which also sends what others have added meanwhile.
class GrpcConnection final : public ClientConnection {
 public:
  GrpcConnection(AcceptedSocket socket, std::shared_ptr<const GrpcShared> shared);
  ~GrpcConnection() override;

  void start() override { wait_to_read(); }
  void look(Clock::time_point now) override;
  void drain() override;
  void close() override;

  const GrpcShared& shared() const { return *shared_; }
  const std::shared_ptr<ByteBudget>& budget() const { return shared_->budget; }
  bool is_from_this_host() const { return is_from_this_host_; }

  /// Does something with the session, and has sent what comes of it, in a thread of the loop when
  /// that has done what it does now: the answers of a batch go out together.
  template <typename Act>
  void with_session(const Act& act) {
    std::unique_lock lock(mutex_);
    if (closed_ || !session_) return leave_mutex(lock);
    act(*session_);
    const bool is_first = !is_sending_ && !std::exchange(is_flush_deferred_, true);
    leave_mutex(lock);
    if (is_first) shared_->loop->defer([self = self()] { self->flush_deferred(); });
  }

  // Under the mutex, from within calls.
  Http2Session& session() { return *session_; }
  void add_ready(std::shared_ptr<GrpcServerCall> call) { ready_.push_back(std::move(call)); }
  void add_cancelled(std::function<void()> act) { cancelled_.push_back(std::move(act)); }
  std::mutex& mutex() { return mutex_; }

 private:
  using Descriptor =
      boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type>;

  /// When what happened, for what takes too long.
  struct Times {
    const Clock::time_point begin = Clock::now();
    Clock::time_point last_call = begin;
    Clock::time_point last_progress = begin;
    Clock::time_point goaway_begin{};
    std::uint64_t seen_bytes = 0;
    std::optional<Clock::time_point> pinged{};
  };

  std::shared_ptr<GrpcConnection> self() {
    return std::static_pointer_cast<GrpcConnection>(shared_from_this());
  }
  void wait_to_read();
  void on_readable(boost::system::error_code error);
  bool receive(std::string_view bytes, std::unique_lock<std::mutex>& lock);
  void make_session();
  void flush_deferred();
  void flush(std::unique_lock<std::mutex>& lock);
  bool fill_output();
  void wait_to_write();
  void close_now();
  void begin_goaway(std::unique_lock<std::mutex>& lock);
  void check_times(Clock::time_point now, std::unique_lock<std::mutex>& lock);
  void reset_stalled(Clock::time_point now);
  void keep_alive(Clock::time_point now);
  void leave_mutex(std::unique_lock<std::mutex>& lock);
  void dispatch(const std::vector<std::shared_ptr<GrpcServerCall>>& calls) const;

  const std::shared_ptr<const GrpcShared> shared_;
  Descriptor descriptor_;
  const bool is_from_this_host_;
  std::mutex mutex_{};
  std::optional<TlsChannel> tls_{};
  std::optional<Http2Session> session_{};
  std::vector<std::shared_ptr<GrpcServerCall>> ready_{};
  std::vector<std::function<void()>> cancelled_{};
  std::string output_{};
  std::size_t output_sent_ = 0;
  bool is_sending_ = false;
  bool is_flush_deferred_ = false;
  bool ends_after_flush_ = false;
  bool closed_ = false;
  Times times_{};
};

}  // namespace muster::serving
