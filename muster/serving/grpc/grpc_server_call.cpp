#include <fmt/core.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/serving/grpc/grpc_connection_internal.h"
#include "muster/serving/grpc/grpc_server_call_internal.h"
#include "muster/serving/http/http_message.h"

namespace muster::serving {
namespace {

using Clock = std::chrono::steady_clock;
using Fields = Http2Session::Fields;

// Memory cost of a stream beside its messages and its header.
constexpr std::size_t kStreamBytes = 4 << 10;
// Answers of a stream that may wait for its client before its next message is answered.
constexpr std::size_t kMostWaitingBytes = 1 << 20;

const Fields& answer_header() {
  static const Fields kHeader{{":status", "200"}, {"content-type", "application/grpc"}};
  return kHeader;
}

void add_status(const GrpcStatus& status, Fields& fields) {
  fields.emplace_back("grpc-status", std::to_string(static_cast<int>(status.code)));
  if (!status.message.empty()) {
    fields.emplace_back("grpc-message", percent_encoded(status.message));
  }
  if (status.code == ErrorCode::kResourceExhausted) {
    fields.emplace_back("grpc-retry-pushback-ms", "1000");
  }
}

}  // namespace

GrpcServerCall::GrpcServerCall(std::shared_ptr<GrpcConnection> connection)
    : connection_(std::move(connection)), held_(connection_->budget()) {
  context_.is_from_this_host = connection_->is_from_this_host();
}

void GrpcServerCall::on_field(std::string_view name, std::string_view value) {
  header_bytes_ += name.size() + value.size() + 32;
  if (header_bytes_ > connection_->shared().options.http2.max_header_bytes) return;
  if (name == ":path") {
    path_ = value;
  } else if (name == ":method") {
    is_post_ = value == "POST";
  } else if (name == "content-type") {
    is_grpc_ = is_grpc_content_type(value);
  } else if (name == "grpc-timeout") {
    if (const auto timeout = parse_grpc_timeout(value)) {
      context_.deadline = Deadline::after(*timeout);
    }
  } else if (name == "grpc-encoding") {
    encoding_ = parse_grpc_encoding(value);
  } else if (name == "authorization") {
    context_.authorization = value;
  } else if (name == "x-muster-key") {
    context_.key = value;
  }
}

void GrpcServerCall::on_header_end() {
  const GrpcShared& shared = connection_->shared();
  if (header_bytes_ > shared.options.http2.max_header_bytes) {
    return finish_here({ErrorCode::kResourceExhausted,
                        fmt::format("the header is larger than the {} bytes that are allowed",
                                    shared.options.http2.max_header_bytes)});
  }
  if (!is_grpc_) return refuse(415);
  if (!is_post_) return refuse(405);
  const auto found = shared.methods.find(path_);
  if (found == shared.methods.end()) return finish_here({ErrorCode::kUnimplemented, ""});
  method_ = &found->second;
  if (encoding_ == GrpcEncoding::kUnknown) {
    return finish_here({ErrorCode::kUnimplemented,
                        "messages are compressed in a way that this server does not know"});
  }
  if (!held_.grow_to(kStreamBytes + header_bytes_)) {
    return finish_here(
        {ErrorCode::kResourceExhausted, "there are too many calls; try again later"});
  }
  if (!method_->check) return;
  try {
    method_->check(context_);
  } catch (...) {
    finish_here(status_of(std::current_exception()));
  }
}

void GrpcServerCall::on_data(std::string_view bytes) {
  last_byte_ = Clock::now();
  // Data after an early answer is dropped.
  if (finished_) return connection_->session().consume(*this, bytes.size());
  body_ += bytes;
  try {
    if (!held_.grow_to(kStreamBytes + header_bytes_ + body_.capacity())) {
      throw ResourceExhausted(
          "the messages of all calls take the {} bytes that they may; try again later",
          connection_->budget()->limit());
    }
    take_messages();
  } catch (...) {
    finish_here(status_of(std::current_exception()));
    return connection_->session().consume(*this, bytes.size());
  }
  if (pending_.empty()) {
    connection_->session().consume(*this, bytes.size());
  } else {
    unconsumed_ += bytes.size();
  }
}

// Takes what is whole from the body. Throws what is wrong with it.
void GrpcServerCall::take_messages() {
  const std::size_t most = connection_->shared().options.max_message_bytes;
  std::size_t at = 0;
  while (body_.size() - at >= kGrpcPrefixBytes) {
    const std::string_view left = std::string_view(body_).substr(at);
    const GrpcPrefix prefix = read_grpc_prefix(left);
    if (prefix.bytes > most) {
      throw ResourceExhausted("Received message larger than max ({} vs. {})", prefix.bytes, most);
    }
    if (prefix.is_compressed && encoding_ == GrpcEncoding::kIdentity) {
      throw Internal("a message is compressed, and the header does not say how");
    }
    if (left.size() - kGrpcPrefixBytes < prefix.bytes) break;
    if (!method_->converse) {
      if (left.size() - kGrpcPrefixBytes > prefix.bytes) {
        throw Internal("more than one message came for a call that has one");
      }
      has_message_ = true;
      is_compressed_ = prefix.is_compressed;
      return;
    }
    take_message(prefix, left.substr(kGrpcPrefixBytes, prefix.bytes));
    at += kGrpcPrefixBytes + prefix.bytes;
  }
  body_.erase(0, at);
}

void GrpcServerCall::take_message(GrpcPrefix prefix, std::string_view bytes) {
  pending_.push_back({std::string(bytes), prefix.is_compressed});
  if (!std::exchange(is_busy_, true)) connection_->add_ready(shared_from_this());
}

void GrpcServerCall::on_end() {
  if (finished_) return;
  if (method_->converse) {
    if (!body_.empty()) return finish_here({ErrorCode::kInternal, "a message is cut short"});
    if (!is_busy_ && pending_.empty()) finish_here({});
    return;
  }
  if (!has_message_) {
    return finish_here(
        {ErrorCode::kInternal, body_.empty() ? "No payload" : "a message is cut short"});
  }
  connection_->add_ready(shared_from_this());
}

void GrpcServerCall::on_sent() {
  if (finished_ || is_busy_ || pending_.empty()) return;
  is_busy_ = true;
  connection_->add_ready(shared_from_this());
}

void GrpcServerCall::on_closed() {
  cancelled_ = true;
  if (on_cancel_) connection_->add_cancelled(std::exchange(on_cancel_, nullptr));
}

void GrpcServerCall::on_drain() {
  if (finished_ || !method_) return;
  const bool waits = method_->converse && !is_busy_ && pending_.empty() && body_.empty();
  if (!waits && !on_cancel_) return;
  if (on_cancel_) connection_->add_cancelled(std::exchange(on_cancel_, nullptr));
  finish_here({ErrorCode::kUnavailable, "the server is stopping"});
}

std::string GrpcServerCall::plain(std::string_view bytes, ByteBudget::Hold* hold) const {
  return inflated(bytes,
                  {.most_bytes = connection_->shared().options.max_message_bytes, .hold = hold});
}

void GrpcServerCall::run() {
  if (method_->converse) return converse();
  if (is_cancelled()) return finish({ErrorCode::kCancelled, ""});
  try {
    message_ = std::string_view(body_).substr(kGrpcPrefixBytes);
    if (is_compressed_) {
      inflated_ = plain(message_, &held_);
      message_ = inflated_;
    }
    method_->handle(shared_from_this());
  } catch (...) {
    finish(status_of(std::current_exception()));
  }
}

// Answers message after message, until there is none, too much waits to be sent, or an answer is
// still to come: then the thread that gives it continues.
void GrpcServerCall::converse() {
  /// Decides who continues after a message: its reply or the loop below, whichever ends later.
  struct Turn {
    std::atomic<bool> is_one_done{false};
    bool goes_on = false;
  };
  const auto self = shared_from_this();
  bool goes_on = true;
  while (goes_on) {
    const auto turn = std::make_shared<Turn>();
    hand_over([self, turn](std::string answer, const std::exception_ptr& failure) {
      turn->goes_on = self->send_reply(std::move(answer), failure);
      if (turn->is_one_done.exchange(true) && turn->goes_on) self->converse();
    });
    goes_on = turn->is_one_done.exchange(true) && turn->goes_on;
  }
}

// Has the next message of a stream answered.
void GrpcServerCall::hand_over(const GrpcReply& reply) {
  Message message;
  {
    const std::lock_guard lock(connection_->mutex());
    message = std::move(pending_.front());
    pending_.pop_front();
  }
  try {
    if (is_cancelled()) return reply("", nullptr);
    if (message.is_compressed) message.bytes = plain(message.bytes, nullptr);
    method_->converse(context_, message.bytes, reply);
  } catch (...) {
    reply("", std::current_exception());
  }
}

// Whether the next message is to be handed over.
bool GrpcServerCall::send_reply(std::string answer, const std::exception_ptr& failure) {
  bool goes_on = false;
  connection_->with_session([&](Http2Session& session) {
    if (is_closed() || finished_) return;
    if (failure) return finish_here(status_of(failure));
    session.respond(*this, answer_header());
    session.send(*this, grpc_prefix(answer.size()));
    session.send(*this, std::move(answer));
    goes_on = !pending_.empty() && waiting_bytes() < kMostWaitingBytes;
    if (pending_.empty()) {
      held_.release();
      held_.grow_to(kStreamBytes + header_bytes_ + body_.capacity());
      session.consume(*this, std::exchange(unconsumed_, 0));
    }
    if (goes_on) return;
    is_busy_ = false;
    if (pending_.empty() && is_request_ended()) finish_here({});
  });
  return goes_on;
}

// Under the mutex of the connection.
void GrpcServerCall::finish_here(const GrpcStatus& status) {
  if (finished_.exchange(true)) return;
  Http2Session& session = connection_->session();
  if (is_answer_begun()) {
    Fields trailers;
    add_status(status, trailers);
    return session.end(*this, std::move(trailers));
  }
  Fields header = answer_header();
  if (encoding_ == GrpcEncoding::kUnknown) {
    header.emplace_back("grpc-accept-encoding", kGrpcEncodings);
  }
  add_status(status, header);
  session.respond_only(*this, header);
}

// Answers a client that does not speak gRPC with an HTTP status alone.
void GrpcServerCall::refuse(int http_status) {
  finished_ = true;
  connection_->session().respond_only(
      *this, {{":status", std::to_string(http_status)}, {"content-length", "0"}});
}

void GrpcServerCall::on_cancel(std::function<void()> act) {
  {
    const std::lock_guard lock(connection_->mutex());
    if (!cancelled_ && !finished_) {
      on_cancel_ = std::move(act);
      return;
    }
  }
  act();
}

void GrpcServerCall::send(std::string message) {
  connection_->with_session([&](Http2Session& session) {
    if (finished_ || is_closed()) return;
    session.respond(*this, answer_header());
    session.send(*this, grpc_prefix(message.size()));
    session.send(*this, std::move(message));
  });
}

void GrpcServerCall::answer(std::string message) {
  connection_->with_session([&](Http2Session& session) {
    if (finished_ || is_closed()) return;
    // An answer counts until its client has taken it.
    if (!held_.grow_to(kStreamBytes + header_bytes_ + body_.capacity() + message.size())) {
      return finish_here(
          {ErrorCode::kResourceExhausted,
           "the messages of all calls take the bytes that they may; try again later"});
    }
    finished_ = true;
    session.respond(*this, answer_header());
    session.send(*this, grpc_prefix(message.size()));
    session.send(*this, std::move(message));
    static const Fields kTrailers{{"grpc-status", "0"}};
    session.end(*this, kTrailers);
  });
}

void GrpcServerCall::finish(GrpcStatus status) {
  connection_->with_session([&](Http2Session&) { finish_here(status); });
}

}  // namespace muster::serving
