#include "muster/serving/front/node_connection_internal.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "muster/serving/http/remote_header.h"

namespace muster::serving {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using NodeSocket = asio::basic_stream_socket<tcp, asio::io_context::executor_type>;
using AnswerParser = http::response_parser<http::string_body>;

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::uint64_t kMostAnswerBytes = std::uint64_t{1} << 30;
constexpr std::uint32_t kMostAnswerHeaderBytes = 64 << 10;
constexpr std::size_t kJoinedRequestBytes = 16 << 10;

// Hop-by-hop headers, and those that header_for_node() sets itself.
constexpr std::string_view kOwnHeaders[] = {
    "Connection",
    "Keep-Alive",
    "Transfer-Encoding",
    "TE",
    "Trailer",
    "Upgrade",
    "Content-Length",
    "Expect",
    "Proxy-Authorization",
    "Proxy-Connection",
    kRemoteHeader,
};

bool is_own_header(std::string_view name) {
  return std::ranges::any_of(kOwnHeaders,
                             [&](std::string_view own) { return equal_ignoring_case(own, name); });
}

std::string header_for_node(const HttpRequest& request, const std::string& host) {
  std::string header;
  auto out = std::back_inserter(header);
  fmt::format_to(out, "{} {} HTTP/1.1\r\n", request.method, request.target);
  bool has_host = false;
  for (const auto& [name, value] : request.headers) {
    if (is_own_header(name)) continue;
    has_host = has_host || equal_ignoring_case(name, "Host");
    fmt::format_to(out, "{}: {}\r\n", name, value);
  }
  if (!has_host) fmt::format_to(out, "Host: {}\r\n", host);
  // To the node every request comes from this host.
  if (!request.is_from_this_host) fmt::format_to(out, "{}: 1\r\n", kRemoteHeader);
  if (!request.body.empty() || request.method != "GET") {
    fmt::format_to(out, "Content-Length: {}\r\n", request.body.size());
  }
  header += "\r\n";
  return header;
}

HttpResponse response_of(http::response<http::string_body>&& message) {
  HttpResponse out{.status = static_cast<int>(message.result_int()), .content_type = ""};
  for (const auto& field : message) {
    const std::string_view name(field.name_string().data(), field.name_string().size());
    const std::string_view value(field.value().data(), field.value().size());
    if (equal_ignoring_case(name, "Content-Type")) {
      out.content_type = value;
    } else if (!is_own_header(name)) {
      out.headers.emplace_back(name, value);
    }
  }
  out.body = std::move(message.body());
  return out;
}

class AsioNodeConnection final : public NodeConnection,
                                 public std::enable_shared_from_this<AsioNodeConnection> {
 public:
  AsioNodeConnection(asio::io_context& io, NodeAddress address)
      : socket_(io), address_(std::move(address)) {}

  void ask(std::shared_ptr<const HttpRequest> request, OnAnswer on_answer) override {
    request_ = std::move(request);
    on_answer_ = std::move(on_answer);
    header_ = header_for_node(*request_, address_.text);
    is_joined_ = request_->body.size() <= kJoinedRequestBytes;
    if (is_joined_) header_ += request_->body;
    written_ = 0;
    parser_.emplace();
    parser_->body_limit(kMostAnswerBytes);
    parser_->header_limit(kMostAnswerHeaderBytes);
    parser_->eager(true);
    if (is_connected_) return write_more(error_code(), 0);
    connect();
  }

  void abandon(const std::string& why) override { fail(why); }

  bool can_ask() const override {
    if (!is_connected_ || on_answer_) return false;
    // A byte, or the end, where nothing was asked: it is over.
    char byte = 0;
    auto& socket = const_cast<NodeSocket&>(socket_);
    const ssize_t size = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }

 private:
  auto then(void (AsioNodeConnection::*step)(error_code, std::size_t)) {
    return [self = shared_from_this(), step](error_code error, std::size_t size) {
      // Given up meanwhile.
      if (self->on_answer_) ((*self).*step)(error, size);
    };
  }

  void connect() {
    tcp::endpoint endpoint;
    std::memcpy(endpoint.data(), &address_.address, address_.length);
    endpoint.resize(address_.length);
    error_code error;
    socket_.open(endpoint.protocol(), error);
    if (error) return fail_later("it cannot be connected to: " + error.message());
    socket_.set_option(tcp::no_delay(true), error);
    socket_.non_blocking(true, error);
    socket_.async_connect(endpoint, [self = shared_from_this()](error_code failure) {
      if (!self->on_answer_) return;
      if (failure) return self->fail("it cannot be connected to: " + failure.message());
      self->is_connected_ = true;
      self->write_more(error_code(), 0);
    });
  }

  // Not before ask() has returned.
  void fail_later(const std::string& why) {
    asio::post(socket_.get_executor(), [self = shared_from_this(), why] {
      if (self->on_answer_) self->fail(why);
    });
  }

  void write_more(error_code error, std::size_t size) {
    written_ += size;
    const std::string_view body = is_joined_ ? std::string_view() : request_->body;
    while (!error && written_ < header_.size() + body.size()) {
      const std::size_t of_header = std::min(written_, header_.size());
      const std::size_t of_body = written_ - of_header;
      const std::array<asio::const_buffer, 2> left{
          asio::const_buffer(header_.data() + of_header, header_.size() - of_header),
          asio::const_buffer(body.data() + of_body, body.size() - of_body)};
      written_ +=
          body.empty() ? socket_.write_some(left.front(), error) : socket_.write_some(left, error);
      if (error == asio::error::would_block || error == asio::error::try_again) {
        return socket_.async_write_some(left, then(&AsioNodeConnection::write_more));
      }
    }
    // Also after an error: a node that refuses a body answers before it has read all of it.
    read_more();
  }

  void read_more() {
    socket_.async_read_some(input_.prepare(kReadBytes), then(&AsioNodeConnection::on_read));
  }

  void on_read(error_code error, std::size_t size) {
    input_.commit(size);
    error_code wrong;
    while (!wrong && input_.size() > 0 && !parser_->is_done()) {
      input_.consume(parser_->put(input_.data(), wrong));
    }
    if (wrong == http::error::need_more) wrong = {};
    if (!wrong && error == asio::error::eof && parser_->got_some()) parser_->put_eof(wrong);
    if (wrong) return fail("its answer is not HTTP/1.1: " + wrong.message());
    if (parser_->is_done()) return finish(!error);
    if (error == asio::error::eof) return fail("it closed the connection");
    if (error) return fail("its connection was lost: " + error.message());
    read_more();
  }

  void finish(bool is_open) {
    auto message = parser_->release();
    if (!is_open || !message.keep_alive() || input_.size() > 0) close();
    NodeAnswer answer{.response = response_of(std::move(message)), .was_sent = true};
    report(std::move(answer));
  }

  void fail(const std::string& why) {
    close();
    if (on_answer_) report({.failure = why, .was_sent = written_ > 0});
  }

  void report(NodeAnswer answer) {
    request_.reset();
    parser_.reset();
    const OnAnswer on_answer = std::exchange(on_answer_, nullptr);
    on_answer(std::move(answer));
  }

  void close() {
    is_connected_ = false;
    error_code ignored;
    socket_.close(ignored);
  }

  NodeSocket socket_;
  const NodeAddress address_;
  bool is_connected_ = false;
  // The request that is in flight; no answer is waited for without on_answer_.
  std::shared_ptr<const HttpRequest> request_{};
  OnAnswer on_answer_{};
  std::string header_{};
  bool is_joined_ = false;
  std::size_t written_ = 0;
  boost::beast::flat_buffer input_{};
  std::optional<AnswerParser> parser_{};
};

}  // namespace

std::shared_ptr<NodeConnection> make_node_connection(asio::io_context& io,
                                                     const NodeAddress& address) {
  return std::make_shared<AsioNodeConnection>(io, address);
}

void run_in(asio::io_context& io, std::function<void()> job) { asio::post(io, std::move(job)); }

}  // namespace muster::serving
