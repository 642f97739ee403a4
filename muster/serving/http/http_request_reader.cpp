#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "muster/serving/http/http_request_reader_internal.h"
#include "muster/serving/listener/byte_budget.h"

namespace muster::serving {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kMostTargetBytes = 8 << 10;
constexpr std::size_t kFirstReadBytes = 2 << 10;
// Capacity of the buffer that a connection without a request may keep.
constexpr std::size_t kMostIdleBytes = 8 << 10;
constexpr std::size_t kMostReadBytes = 64 << 10;
constexpr std::size_t kUsualFields = 8;

/// The body of a request, which takes memory as it comes: a header that claims 64 MiB costs none.
struct GrowingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>& length, error_code& error) {
      error = {};
      if (length) length_ = *length;
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& error) {
      error = {};
      std::size_t size = 0;
      for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers);
           ++it) {
        const asio::const_buffer piece(*it);
        make_room(body_.size() + piece.size());
        body_.append(static_cast<const char*>(piece.data()), piece.size());
        size += piece.size();
      }
      return size;
    }
    void finish(error_code& error) { error = {}; }

   private:
    // By doubling, but no further than what is to come.
    void make_room(std::size_t needed) {
      if (needed <= body_.capacity()) return;
      std::size_t room = std::max(needed, 2 * body_.capacity());
      if (length_) room = std::max<std::size_t>(needed, std::min<std::uint64_t>(room, *length_));
      std::string larger;  // Anew: reserve() doubles what there is, whatever is asked of it.
      larger.reserve(room);
      larger += body_;
      body_.swap(larger);
    }

    value_type& body_;
    std::optional<std::uint64_t> length_{};
  };
};

// "localhost:8501", "[::1]": nothing but a name or an address and a port, or nothing at all.
bool is_host(std::string_view text) {
  const auto is_made_of = [](std::string_view part, std::string_view more) {
    return std::ranges::all_of(part, [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             more.find(c) != more.npos;
    });
  };
  const bool is_in_brackets = text.starts_with('[');
  const auto end = is_in_brackets ? text.find(']') : std::min(text.find(':'), text.size());
  if (end == text.npos) return false;
  const std::string_view name = text.substr(is_in_brackets ? 1 : 0, end - (is_in_brackets ? 1 : 0));
  const std::string_view port = text.substr(is_in_brackets ? end + 1 : end);
  const bool is_port =
      port.empty() || (port.front() == ':' && port.find_first_not_of("0123456789", 1) == port.npos);
  return is_port && is_made_of(name, is_in_brackets ? ":.%-" : "-._~!$&'()*+,;=%");
}

// Why the Host of a request is refused, as RFC 9112 wants it; nothing where it is right.
template <typename Fields>
const char* wrong_host(const http::header<true, Fields>& header) {
  const auto count = header.count(http::field::host);
  if (count > 1) return "the request has more than one Host header; send one";
  if (count == 0) {
    return header.version() >= 11 ? "the request has no Host header, which HTTP/1.1 needs"
                                  : nullptr;
  }
  const auto host = header[http::field::host];
  return is_host({host.data(), host.size()}) ? nullptr
                                             : "the Host header of the request is no HOST:PORT";
}

}  // namespace

struct HttpRequestReader::Impl {
  explicit Impl(const HttpServerOptions& its_options)
      : options(its_options), held(options.body_budget) {
    buffer.max_size(std::max(kMostReadBytes, 2 * options.max_header_bytes));
  }

  const HttpServerOptions& options;
  beast::flat_buffer buffer{};
  std::optional<http::request_parser<GrowingBody>> parser{};
  bool header_seen = false;
  ByteBudget::Hold held;
  HttpRefusal refusal{};

  std::span<char> room(std::size_t size) {
    const auto room = buffer.prepare(size);
    return {static_cast<char*>(room.data()), room.size()};
  }

  Step refuse(int status, ErrorCode code, std::string text) {
    refusal = {status, code, std::move(text)};
    return Step::kRefused;
  }

  Step refuse_body() {
    return refuse(413, ErrorCode::kInvalidArgument,
                  fmt::format("the body is larger than the {} bytes that are allowed; "
                              "--rest-api-max-body-bytes raises the limit",
                              options.max_body_bytes));
  }

  Step refuse_for_lack_of_memory() {
    return refuse(429, ErrorCode::kResourceExhausted,
                  fmt::format("the requests that are being received take the {} bytes that they "
                              "may; try again later",
                              options.body_budget->limit()));
  }

  Step refuse_wrong(error_code error) {
    if (error == http::error::header_limit) {
      return refuse(431, ErrorCode::kInvalidArgument, "the header is too large");
    }
    if (error == http::error::body_limit) return refuse_body();
    return refuse(400, ErrorCode::kInvalidArgument, "this is no HTTP request");
  }

  // Looks at a header that has just been taken.
  Step check_header() {
    const auto& message = parser->get();
    if (message.target().size() > kMostTargetBytes) {
      return refuse(414, ErrorCode::kInvalidArgument, "the path of the request is too long");
    }
    if (const char* const wrong = wrong_host(message)) {
      return refuse(400, ErrorCode::kInvalidArgument, wrong);
    }
    const auto length = parser->content_length();
    if (length && *length > options.max_body_bytes) return refuse_body();
    return Step::kHeader;
  }
};

HttpRequestReader::HttpRequestReader(const HttpServerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
HttpRequestReader::~HttpRequestReader() = default;

bool HttpRequestReader::begin() {
  auto& parser = impl_->parser;
  parser.emplace();
  parser->header_limit(static_cast<std::uint32_t>(impl_->options.max_header_bytes));
  parser->body_limit(impl_->options.max_body_bytes);
  impl_->header_seen = false;
  if (has_bytes()) return true;
  if (impl_->buffer.capacity() > kMostIdleBytes) impl_->buffer.shrink_to_fit();
  return false;
}

bool HttpRequestReader::has_bytes() const { return impl_->buffer.size() > 0; }

std::span<char> HttpRequestReader::prepare() {
  const std::size_t room = impl_->buffer.max_size() - impl_->buffer.size();
  if (room == 0) return {};
  std::size_t wish = kFirstReadBytes;
  if (impl_->header_seen) {
    wish = std::min<std::uint64_t>(
        impl_->parser->content_length_remaining().value_or(kMostReadBytes), kMostReadBytes);
  }
  return impl_->room(std::min(room, std::max(wish, kFirstReadBytes)));
}

void HttpRequestReader::commit(std::size_t size) { impl_->buffer.commit(size); }

HttpRequestReader::Step HttpRequestReader::parse() {
  auto& parser = *impl_->parser;
  while (true) {
    if (impl_->header_seen) {
      if (!impl_->held.grow_to(parser.get().body().capacity())) {
        return impl_->refuse_for_lack_of_memory();
      }
      if (parser.is_done()) return Step::kWhole;
      if (!has_bytes()) return Step::kReadMore;
    }
    error_code error;
    impl_->buffer.consume(parser.put(impl_->buffer.data(), error));
    if (error == http::error::need_more) return Step::kReadMore;
    if (error) return impl_->refuse_wrong(error);
    if (!impl_->header_seen && parser.is_header_done()) {
      impl_->header_seen = true;
      parser.eager(true);
      return impl_->check_header();
    }
  }
}

bool HttpRequestReader::waits_for_continue() const {
  const auto& message = impl_->parser->get();
  return message.version() >= 11 && !impl_->parser->is_done() && !has_bytes() &&
         beast::iequals(message[http::field::expect], "100-continue");
}

const HttpRefusal& HttpRequestReader::refusal() const { return impl_->refusal; }

HttpRequest HttpRequestReader::take(HttpExchange& exchange) {
  auto message = impl_->parser->release();
  exchange.keep_alive = message.keep_alive();
  exchange.is_head = message.method() == http::verb::head;
  exchange.version = message.version();
  HttpRequest request;
  request.method = exchange.is_head ? "GET" : std::string(message.method_string());
  request.target = std::string(message.target());
  request.headers.reserve(kUsualFields);
  for (const auto& field : message)
    request.headers.emplace_back(field.name_string(), field.value());
  request.body = std::move(message.body());
  request.received = std::chrono::steady_clock::now();
  if (impl_->options.log_requests) {
    exchange.logged =
        fmt::format("{} {}", std::string(message.method_string()), request.target.substr(0, 200));
  }
  exchange.received = request.received;
  return request;
}

void HttpRequestReader::release_budget() { impl_->held.release(); }

void HttpRequestReader::end() {
  impl_->parser.reset();
  impl_->held.release();
}

std::span<char> HttpRequestReader::prepare_to_drop() {
  impl_->buffer.clear();
  return impl_->room(kMostReadBytes);
}

}  // namespace muster::serving
