// gRPC as a client speaks it: a stream of HTTP/2 per call.
#include <fmt/core.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <new>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/serving/grpc/grpc_framing.h"
#include "muster/serving/load/client_session.h"

namespace muster::serving {
namespace {

constexpr std::int32_t kWindow = 64 << 20;

nghttp2_nv pair_of(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {.name = bytes(name),
          .value = bytes(value),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = NGHTTP2_NV_FLAG_NONE};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// A status message as headers have it, with %41 for what they cannot hold.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// As grpc-timeout has it: at most eight digits, then the unit.
std::string timeout_text(std::int64_t nanoseconds) {
  constexpr std::int64_t kMost = 99'999'999;
  const std::int64_t milliseconds = std::max<std::int64_t>(1, nanoseconds / 1'000'000);
  if (milliseconds <= kMost) return fmt::format("{}m", milliseconds);
  return fmt::format("{}S", std::min(kMost, milliseconds / 1000));
}

/// A call that is in flight.
struct Call {
  std::uint64_t tag = 0;
  std::string_view body{};
  std::array<char, kGrpcPrefixBytes> prefix{};
  std::size_t sent = 0;
  int http_status = 0;
  int grpc_status = -1;
  std::string message{};
  std::size_t received = 0;
  std::string data{};
};

class GrpcSession final : public ClientSession {
 public:
  GrpcSession(Options options, OnAnswer on_answer)
      : options_(std::move(options)), on_answer_(std::move(on_answer)) {
    if (options_.deadline_nanoseconds > 0) {
      timeout_ = timeout_text(options_.deadline_nanoseconds);
    }
    if (!options_.token.empty()) authorization_ = "Bearer " + options_.token;
    begin();
  }
  ~GrpcSession() override { nghttp2_session_del(session_); }
  GrpcSession(const GrpcSession&) = delete;
  GrpcSession& operator=(const GrpcSession&) = delete;

  bool can_send() const override {
    return !is_over_ && !is_going_ && streams_.size() < options_.most_streams &&
           nghttp2_session_check_request_allowed(session_) != 0;
  }
  std::size_t in_flight() const override { return calls_.size(); }

  void send(std::uint64_t tag, const PreparedRequest& request) override {
    std::array<nghttp2_nv, 8> pairs{pair_of(":method", "POST"),
                                    pair_of(":scheme", "http"),
                                    pair_of(":path", request.path),
                                    pair_of(":authority", options_.authority),
                                    pair_of("content-type", "application/grpc"),
                                    pair_of("te", "trailers")};
    std::size_t count = 6;
    if (!timeout_.empty()) pairs[count++] = pair_of("grpc-timeout", timeout_);
    if (!authorization_.empty()) pairs[count++] = pair_of("authorization", authorization_);
    auto call = std::make_unique<Call>();
    call->tag = tag;
    call->body = request.body;
    const std::string prefix = grpc_prefix(request.body.size());
    std::copy(prefix.begin(), prefix.end(), call->prefix.begin());
    nghttp2_data_provider provider{.source = {.ptr = call.get()}, .read_callback = read_body};
    const std::int32_t stream =
        nghttp2_submit_request(session_, nullptr, pairs.data(), count, &provider, call.get());
    if (stream < 0) {
      is_going_ = true;
      return on_answer_({.tag = tag, .kind = AnswerKind::kNotTaken});
    }
    streams_.emplace(tag, stream);
    calls_.emplace(stream, std::move(call));
  }

  bool cancel(std::uint64_t tag) override {
    const auto found = streams_.find(tag);
    if (found == streams_.end()) return true;
    const std::int32_t stream = found->second;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    streams_.erase(found);
    calls_.at(stream)->tag = kNoTag;
    return true;
  }

  bool receive(std::string_view bytes) override {
    if (is_over_) return false;
    const auto taken = nghttp2_session_mem_recv(
        session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    if (taken < 0 || !speaks_http2_) {
      end_all(AnswerKind::kFailed, "bad answer", "its answer is not HTTP/2");
      return false;
    }
    const bool wants_more =
        nghttp2_session_want_read(session_) != 0 || nghttp2_session_want_write(session_) != 0;
    if (!wants_more || (is_going_ && calls_.empty())) is_over_ = true;
    return !is_over_;
  }

  void close(std::string_view why) override {
    // A stream whose first byte was never given to the socket cannot have been taken.
    end_all(AnswerKind::kNotTaken, "connection closed", why);
  }

  void take_output(std::string& out) override {
    while (true) {
      const std::uint8_t* bytes = nullptr;
      const auto size = nghttp2_session_mem_send(session_, &bytes);
      if (size <= 0) return;
      out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
  }

 private:
  static constexpr std::uint64_t kNoTag = ~std::uint64_t{0};

  static GrpcSession& of(void* data) { return *static_cast<GrpcSession*>(data); }

  void end_all(AnswerKind kind_of_unsent, const char* error, std::string_view why) {
    is_over_ = true;
    auto open = std::move(calls_);
    calls_.clear();
    streams_.clear();
    for (const auto& [stream, call] : open) {
      if (call->tag == kNoTag) continue;
      on_answer_({.tag = call->tag,
                  .kind = call->sent > 0 ? AnswerKind::kFailed : kind_of_unsent,
                  .error = error,
                  .message = std::string(why)});
    }
    // A second end has no calls, and those of the first stay.
    closed_calls_.merge(open);
  }

  Call* find(std::int32_t stream) {
    const auto found = calls_.find(stream);
    return found == calls_.end() ? nullptr : found->second.get();
  }

  static ssize_t read_body(nghttp2_session*, std::int32_t, std::uint8_t* out, std::size_t size,
                           std::uint32_t* flags, nghttp2_data_source* source, void*) {
    Call& call = *static_cast<Call*>(source->ptr);
    std::size_t copied = 0;
    const auto copy = [&](std::string_view part, std::size_t begin) {
      if (call.sent < begin || call.sent >= begin + part.size()) return;
      const std::string_view left = part.substr(call.sent - begin);
      const std::size_t now = std::min(size - copied, left.size());
      std::memcpy(out + copied, left.data(), now);
      copied += now;
      call.sent += now;
    };
    copy({call.prefix.data(), call.prefix.size()}, 0);
    copy(call.body, call.prefix.size());
    if (call.sent == call.prefix.size() + call.body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(copied);
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* data) {
    Call* const call = of(data).find(frame->hd.stream_id);
    if (call == nullptr) return 0;
    const std::string_view field(reinterpret_cast<const char*>(name), name_size);
    const std::string_view text(reinterpret_cast<const char*>(value), value_size);
    if (field == ":status") {
      std::from_chars(text.data(), text.data() + text.size(), call->http_status);
    } else if (field == "grpc-status") {
      std::from_chars(text.data(), text.data() + text.size(), call->grpc_status);
    } else if (field == "grpc-message") {
      call->message = printable_line(percent_decoded(text.substr(0, 1000)));
    }
    return 0;
  }

  static int on_data(nghttp2_session* session, std::uint8_t, std::int32_t stream,
                     const std::uint8_t* bytes, std::size_t size, void* data) {
    GrpcSession& self = of(data);
    Call* const call = self.find(stream);
    if (call == nullptr) return 0;
    call->received += size;
    if (call->received > self.options_.most_answer_bytes) {
      call->message = "its answer is too long";
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    } else if (self.options_.keep_bodies) {
      call->data.append(reinterpret_cast<const char*>(bytes), size);
    }
    return 0;
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    if (frame->hd.type == NGHTTP2_GOAWAY) of(data).is_going_ = true;
    return 0;
  }

  static int on_error(nghttp2_session*, int code, const char*, std::size_t, void* data) {
    if (code == NGHTTP2_ERR_SETTINGS_EXPECTED) of(data).speaks_http2_ = false;
    return 0;
  }

  static int on_stream_close(nghttp2_session*, std::int32_t stream, std::uint32_t code,
                             void* data) {
    GrpcSession& self = of(data);
    const auto found = self.calls_.find(stream);
    if (found == self.calls_.end()) return 0;
    const std::unique_ptr<Call> call = std::move(found->second);
    self.calls_.erase(found);
    if (call->tag == kNoTag) return 0;
    self.streams_.erase(call->tag);
    self.on_answer_(self.answer_of(*call, code));
    return 0;
  }

  ClientAnswer answer_of(Call& call, std::uint32_t code) const {
    ClientAnswer answer{.tag = call.tag};
    if (call.grpc_status == 0) {
      if (options_.keep_bodies)
        answer.body = call.data.substr(std::min(kGrpcPrefixBytes, call.data.size()));
      return answer;
    }
    answer.kind = AnswerKind::kFailed;
    if (call.grpc_status > 0) {
      answer.error = name_of(static_cast<ErrorCode>(call.grpc_status));
    } else if (code == NGHTTP2_REFUSED_STREAM) {
      answer.kind = AnswerKind::kNotTaken;
      answer.error = "stream refused";
    } else if (call.http_status != 0 && call.http_status != 200) {
      answer.error = fmt::format("HTTP {}", call.http_status);
    } else {
      answer.error = "stream reset";
      if (call.message.empty()) call.message = nghttp2_http2_strerror(code);
    }
    answer.message = std::move(call.message);
    return answer;
  }

  void begin() {
    nghttp2_session_callbacks* callbacks = nullptr;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
    const std::unique_ptr<nghttp2_session_callbacks, void (*)(nghttp2_session_callbacks*)> owner(
        callbacks, nghttp2_session_callbacks_del);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_error_callback2(callbacks, on_error);
    if (nghttp2_session_client_new(&session_, callbacks, this) != 0) throw std::bad_alloc();
    const std::array<nghttp2_settings_entry, 2> settings{
        nghttp2_settings_entry{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        nghttp2_settings_entry{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow}};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindow);
  }

  const Options options_;
  const OnAnswer on_answer_;
  std::string timeout_{};
  std::string authorization_{};
  nghttp2_session* session_ = nullptr;
  std::unordered_map<std::int32_t, std::unique_ptr<Call>> calls_{};
  std::unordered_map<std::uint64_t, std::int32_t> streams_{};
  // nghttp2 may still read bodies of these until the session is gone.
  std::unordered_map<std::int32_t, std::unique_ptr<Call>> closed_calls_{};
  // Nothing says the opposite yet.
  bool speaks_http2_ = true;
  bool is_going_ = false;
  bool is_over_ = false;
};

}  // namespace

std::unique_ptr<ClientSession> grpc_session(const ClientSession::Options& options,
                                            ClientSession::OnAnswer on_answer) {
  return std::make_unique<GrpcSession>(options, std::move(on_answer));
}

}  // namespace muster::serving
