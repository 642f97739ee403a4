#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/serving/grpc/grpc_framing.h"
#include "muster/serving/grpc/grpc_transport.h"
#include "muster/serving/grpc/http2_session.h"
#include "muster/serving/listener/byte_budget.h"
#include "muster/serving/listener/event_loop.h"

namespace muster::serving {

class GrpcConnection;

/// One call. What begins with on_ is called under the mutex of its connection.
class GrpcServerCall final : public GrpcCall,
                             public Http2Stream,
                             public std::enable_shared_from_this<GrpcServerCall> {
 public:
  explicit GrpcServerCall(std::shared_ptr<GrpcConnection> connection);

  const GrpcContext& context() const override { return context_; }
  std::string_view request() const override { return message_; }
  bool is_cancelled() const override { return cancelled_.load(); }
  void on_cancel(std::function<void()> act) override;
  void send(std::string message) override;
  void answer(std::string message) override;
  void finish(GrpcStatus status) override;

  /// Whether the thread that reads may run() it.
  bool is_short() const {
    if (method_->work != GrpcWork::kBySize) return method_->work == GrpcWork::kShort;
    return !is_compressed_ && body_.size() <= kMostBytesInLoop;
  }
  /// In the thread that answers.
  void run();

  void on_field(std::string_view name, std::string_view value) override;
  void on_header_end() override;
  void on_data(std::string_view bytes) override;
  void on_end() override;
  void on_sent() override;
  void on_closed() override;
  /// The server stops: a stream that waits for its client ends.
  void on_drain();
  /// Whether it is too long that a message has stopped in the middle.
  bool is_stalled(std::chrono::steady_clock::time_point now, std::chrono::milliseconds most) const {
    const bool waits = method_ && method_->converse && body_.empty();
    return !is_request_ended() && !finished_ && !waits && now - last_byte_ > most;
  }

 private:
  void take_messages();
  void take_message(GrpcPrefix prefix, std::string_view bytes);
  void finish_here(const GrpcStatus& status);
  void refuse(int http_status);
  void converse();
  void hand_over(const GrpcReply& reply);
  bool send_reply(std::string answer, const std::exception_ptr& failure);
  std::string plain(std::string_view bytes, ByteBudget::Hold* hold) const;

  struct Message {
    std::string bytes{};
    bool is_compressed = false;
  };

  // A connection holds its calls as long as they are open, so that both go when these close.
  const std::shared_ptr<GrpcConnection> connection_;
  GrpcContext context_{};
  const GrpcMethod* method_ = nullptr;
  ByteBudget::Hold held_;
  // From the header.
  std::string path_{};
  std::size_t header_bytes_ = 0;
  bool is_post_ = false;
  bool is_grpc_ = false;
  GrpcEncoding encoding_ = GrpcEncoding::kIdentity;
  std::chrono::steady_clock::time_point last_byte_ = std::chrono::steady_clock::now();
  // The bytes of messages that are not whole.
  std::string body_{};
  std::string_view message_{};
  bool has_message_ = false;
  bool is_compressed_ = false;
  std::string inflated_{};
  std::atomic<bool> finished_{false};
  std::atomic<bool> cancelled_{false};
  std::function<void()> on_cancel_{};
  // For a stream.
  std::deque<Message> pending_{};
  bool is_busy_ = false;
  std::size_t unconsumed_ = 0;
};

}  // namespace muster::serving
