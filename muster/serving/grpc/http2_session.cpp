#include "muster/serving/grpc/http2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace muster::serving {
namespace {

constexpr std::uint8_t kGoawayPing[8] = {'g', 'o', 'a', 'w', 'a', 'y', 0, 0};

std::string_view view(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

std::uint8_t* bytes_of(const std::string& text) {
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

std::vector<nghttp2_nv> pairs_of(const Http2Session::Fields& fields) {
  std::vector<nghttp2_nv> out;
  out.reserve(fields.size());
  for (const auto& [name, value] : fields) {
    out.push_back({.name = bytes_of(name),
                   .value = bytes_of(value),
                   .namelen = name.size(),
                   .valuelen = value.size(),
                   .flags = NGHTTP2_NV_FLAG_NONE});
  }
  return out;
}

// Newer libraries have a limit of their own for streams that are reset, which does not know of
// answers.
template <typename Option>
auto lift_reset_limit(Option* option, int)
    -> decltype(nghttp2_option_set_stream_reset_rate_limit(option, 0, 0)) {
  nghttp2_option_set_stream_reset_rate_limit(option, 1U << 30, 1U << 30);
}
template <typename Option>
void lift_reset_limit(Option*, long) {}

}  // namespace

/// Callbacks of nghttp2.
struct Http2Callbacks {
  static Http2Session& of(void* data) { return *static_cast<Http2Session*>(data); }

  static int on_begin_frame(nghttp2_session*, const nghttp2_frame_hd* frame, void* data) {
    Http2Session& self = of(data);
    switch (frame->type) {
      case NGHTTP2_DATA:
        if (frame->length == 0 && (frame->flags & NGHTTP2_FLAG_END_STREAM) == 0) self.spend(1);
        break;
      case NGHTTP2_HEADERS:
        break;
      case NGHTTP2_WINDOW_UPDATE:
        self.spend(0.1);
        break;
      default:
        self.spend(1);
    }
    return 0;
  }

  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* data) {
    Http2Session& self = of(data);
    const std::int32_t id = frame->hd.stream_id;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
      if (Http2Stream* const stream = self.find(id)) stream->in_trailers_ = true;
      return 0;
    }
    auto stream = self.make_stream_();
    stream->id_ = id;
    nghttp2_session_set_stream_user_data(session, id, stream.get());
    self.streams_.emplace(id, std::move(stream));
    return 0;
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* data) {
    Http2Stream* const stream = of(data).find(frame->hd.stream_id);
    if (stream != nullptr && !stream->in_trailers_) {
      stream->on_field(view(name, name_size), view(value, value_size));
    }
    return 0;
  }

  static int on_invalid_header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t*,
                               std::size_t, const std::uint8_t*, std::size_t, std::uint8_t,
                               void* data) {
    of(data).spend(1);
    return 0;
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    Http2Session& self = of(data);
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
      self.last_pong_ = Http2Session::Clock::now();
      if (std::memcmp(frame->ping.opaque_data, kGoawayPing, sizeof kGoawayPing) == 0 &&
          self.goaway_begun_) {
        self.finish_goaway();
      }
      return 0;
    }
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    Http2Stream* const stream = self.find(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    // The stream may go in what it calls.
    const auto held = self.streams_.at(stream->id_);
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      stream->on_header_end();
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 && !stream->closed_) {
      stream->request_ended_ = true;
      stream->on_end();
    }
    return 0;
  }

  static int on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int error, void* data) {
    // Clients begin more streams than they may before they have heard of the limit.
    of(data).spend(error == NGHTTP2_ERR_REFUSED_STREAM ? 1 : 10);
    return 0;
  }

  static int on_data(nghttp2_session* session, std::uint8_t, std::int32_t id,
                     const std::uint8_t* bytes, std::size_t size, void* data) {
    Http2Session& self = of(data);
    self.frames_left_ =
        std::min(self.options_.most_frames, self.frames_left_ + static_cast<double>(size) / 1024 *
                                                                    self.options_.frames_per_kib);
    nghttp2_session_consume_connection(session, size);
    if (Http2Stream* const stream = self.find(id)) stream->on_data(view(bytes, size));
    return 0;
  }

  static int on_frame_sent(nghttp2_session* session, const nghttp2_frame* frame, void* data) {
    const bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!is_end || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)) return 0;
    const Http2Stream* const stream = of(data).find(frame->hd.stream_id);
    if (stream != nullptr && !stream->request_ended_) {
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  static int on_stream_close(nghttp2_session*, std::int32_t id, std::uint32_t, void* data) {
    of(data).close_stream(id);
    return 0;
  }

  static ssize_t read_data(nghttp2_session* session, std::int32_t id, std::uint8_t* out,
                           std::size_t size, std::uint32_t* flags, nghttp2_data_source* source,
                           void* data) {
    Http2Session& self = of(data);
    Http2Stream& stream = *static_cast<Http2Stream*>(source->ptr);
    std::size_t copied = 0;
    while (copied < size && !stream.waiting_.empty()) {
      const std::string& front = stream.waiting_.front();
      const std::size_t part = std::min(size - copied, front.size() - stream.front_sent_);
      std::memcpy(out + copied, front.data() + stream.front_sent_, part);
      copied += part;
      stream.front_sent_ += part;
      if (stream.front_sent_ < front.size()) break;
      stream.waiting_.pop_front();
      stream.front_sent_ = 0;
    }
    stream.waiting_bytes_ -= copied;
    self.waiting_bytes_ -= copied;
    self.sent_bytes_ += copied;
    self.frames_left_ += static_cast<double>(copied) / 1024 * self.options_.frames_per_kib;
    if (!stream.waiting_.empty()) return static_cast<ssize_t>(copied);
    if (stream.response_ended_) {
      *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const auto trailers = pairs_of(stream.trailers_);
      if (nghttp2_submit_trailer(session, id, trailers.data(), trailers.size()) != 0) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
      }
      return static_cast<ssize_t>(copied);
    }
    if (copied > 0) {
      self.sent_.push_back(id);
      return static_cast<ssize_t>(copied);
    }
    stream.is_deferred_ = true;
    return NGHTTP2_ERR_DEFERRED;
  }
};

Http2Session::Http2Session(const Options& options, MakeStream make_stream)
    : options_(options), make_stream_(std::move(make_stream)), frames_left_(options.most_frames) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
  const std::unique_ptr<nghttp2_session_callbacks, void (*)(nghttp2_session_callbacks*)>
      callbacks_owner(callbacks, nghttp2_session_callbacks_del);
  if (nghttp2_option_new(&option) != 0) throw std::bad_alloc();
  const std::unique_ptr<nghttp2_option, void (*)(nghttp2_option*)> option_owner(option,
                                                                                nghttp2_option_del);
  using Calls = Http2Callbacks;
  nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, Calls::on_begin_frame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, Calls::on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Calls::on_header);
  nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, Calls::on_invalid_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Calls::on_frame);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, Calls::on_invalid_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Calls::on_data);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, Calls::on_frame_sent);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Calls::on_stream_close);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  lift_reset_limit(option, 0);
  if (nghttp2_session_server_new2(&session_, callbacks, this, option) != 0) throw std::bad_alloc();
  const std::array<nghttp2_settings_entry, 4> settings{
      {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options_.max_streams},
       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options_.stream_window},
       {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
        static_cast<std::uint32_t>(options_.max_header_bytes)},
       // No tree of priorities is kept: RFC 9218.
       {0x09, 1}}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                        static_cast<std::int32_t>(options_.connection_window));
}

Http2Session::~Http2Session() {
  close();
  nghttp2_session_del(session_);
}

void Http2Session::refill() {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - refilled_).count();
  refilled_ = now;
  frames_left_ =
      std::min(options_.most_frames, frames_left_ + seconds * options_.frames_per_second);
}

void Http2Session::spend(double frames) {
  frames_left_ -= frames;
  if (frames_left_ < 0) too_much_ = true;
}

Http2Stream* Http2Session::find(std::int32_t id) {
  return static_cast<Http2Stream*>(nghttp2_session_get_stream_user_data(session_, id));
}

bool Http2Session::receive(std::string_view bytes) {
  if (closed_) return false;
  refill();
  // In pieces: one that floods is found out before much of it is read.
  constexpr std::size_t kPiece = 16 << 10;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    bytes.remove_prefix(piece.size());
    const auto taken = nghttp2_session_mem_recv(
        session_, reinterpret_cast<const std::uint8_t*>(piece.data()), piece.size());
    if (taken == NGHTTP2_ERR_FLOODED) too_much_ = true;
    if (too_much_) {
      nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
      return false;
    }
    if (taken < 0) return false;
  }
  return nghttp2_session_want_read(session_) != 0 || nghttp2_session_want_write(session_) != 0;
}

void Http2Session::take_output(std::string& out, std::size_t most) {
  if (closed_) return;  // Pending frames may name streams that are gone.
  while (out.size() < most) {
    const std::uint8_t* bytes = nullptr;
    const auto size = nghttp2_session_mem_send(session_, &bytes);
    if (size <= 0) break;
    out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  }
  for (const std::int32_t id : std::exchange(sent_, {})) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) continue;
    const auto stream = found->second;
    if (stream->waiting_.empty() && !stream->closed_) stream->on_sent();
  }
}

bool Http2Session::is_over() const {
  return closed_ || (nghttp2_session_want_read(session_) == 0 && !has_output()) ||
         (goaway_finished_ && streams_.empty() && !has_output());
}

bool Http2Session::has_output() const { return nghttp2_session_want_write(session_) != 0; }

void Http2Session::respond(Http2Stream& stream, const Fields& header) {
  if (stream.closed_ || stream.response_begun_) return;
  stream.response_begun_ = true;
  nghttp2_data_provider provider{};
  provider.source.ptr = &stream;
  provider.read_callback = Http2Callbacks::read_data;
  const auto pairs = pairs_of(header);
  nghttp2_submit_response(session_, stream.id_, pairs.data(), pairs.size(), &provider);
}

void Http2Session::resume(Http2Stream& stream) {
  if (!std::exchange(stream.is_deferred_, false)) return;
  nghttp2_session_resume_data(session_, stream.id_);
}

void Http2Session::send(Http2Stream& stream, std::string bytes) {
  if (stream.closed_ || stream.response_ended_ || bytes.empty()) return;
  stream.waiting_bytes_ += bytes.size();
  waiting_bytes_ += bytes.size();
  stream.waiting_.push_back(std::move(bytes));
  resume(stream);
}

void Http2Session::end(Http2Stream& stream, Fields trailers) {
  if (stream.closed_ || stream.response_ended_) return;
  stream.response_ended_ = true;
  stream.trailers_ = std::move(trailers);
  resume(stream);
  if (stream.request_ended_) {
    frames_left_ = std::min(options_.most_frames, frames_left_ + options_.frames_per_answer);
  }
}

void Http2Session::respond_only(Http2Stream& stream, const Fields& header) {
  if (stream.closed_ || stream.response_begun_) return;
  stream.response_begun_ = true;
  stream.response_ended_ = true;
  const auto pairs = pairs_of(header);
  nghttp2_submit_response(session_, stream.id_, pairs.data(), pairs.size(), nullptr);
}

void Http2Session::reset(Http2Stream& stream) {
  if (stream.closed_) return;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id_, NGHTTP2_CANCEL);
}

void Http2Session::consume(Http2Stream& stream, std::size_t bytes) {
  if (!stream.closed_) nghttp2_session_consume_stream(session_, stream.id_, bytes);
}

void Http2Session::begin_goaway() {
  if (std::exchange(goaway_begun_, true)) return;
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, kGoawayPing);
}

void Http2Session::finish_goaway() {
  if (std::exchange(goaway_finished_, true)) return;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

void Http2Session::ping() { nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr); }

void Http2Session::close_stream(std::int32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  const auto stream = std::move(found->second);
  streams_.erase(found);
  stream->closed_ = true;
  waiting_bytes_ -= stream->waiting_bytes_;
  stream->waiting_bytes_ = 0;
  stream->waiting_.clear();
  stream->on_closed();
}

void Http2Session::close() {
  closed_ = true;
  while (!streams_.empty()) close_stream(streams_.begin()->first);
}

}  // namespace muster::serving
