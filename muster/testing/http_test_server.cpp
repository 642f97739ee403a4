#include "muster/testing/http_test_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace muster::testing {
namespace {

constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 16;
constexpr std::size_t kMostRequestBytes = std::size_t{1} << 30;

bool send_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// False at the end of the connection.
bool receive_more(int descriptor, std::string& bytes) {
  char piece[1 << 16];
  const auto count = ::recv(descriptor, piece, sizeof piece, 0);
  if (count <= 0) return false;
  bytes.append(piece, static_cast<std::size_t>(count));
  return true;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Parses the request line and the headers, up to the empty line.
HttpCall parse_call(std::string_view text) {
  HttpCall call;
  const auto first_end = text.find("\r\n");
  const std::string_view first = text.substr(0, first_end);
  const auto space = first.find(' ');
  const auto second = first.find(' ', space + 1);
  call.method = first.substr(0, space);
  const std::string_view target = first.substr(space + 1, second - space - 1);
  const auto mark = target.find('?');
  call.path = target.substr(0, mark);
  if (mark != target.npos) call.query = target.substr(mark + 1);
  std::string_view rest = text.substr(first_end + 2);
  while (!rest.empty()) {
    const auto end = std::min(rest.find("\r\n"), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    const auto colon = line.find(':');
    if (colon == line.npos) continue;
    const auto begin = std::min(line.find_first_not_of(' ', colon + 1), line.size());
    call.headers[lower_case(line.substr(0, colon))] = line.substr(begin);
  }
  return call;
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ec == std::errc()) {
      out.push_back(static_cast<char>(value));
      i += 2;
    } else {
      out.push_back(text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

std::string HttpCall::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::optional<std::string> HttpCall::parameter(const std::string& name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const auto equals = std::min(pair.find('='), pair.size());
    if (percent_decoded(pair.substr(0, equals)) != name) continue;
    return percent_decoded(pair.substr(std::min(equals + 1, pair.size())));
  }
  return std::nullopt;
}

HttpTestServer::HttpTestServer(Handler handler) : handler_(std::move(handler)) {
  listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listening_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listening_, 64) != 0 ||
      ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ADD_FAILURE() << "no port of loopback can be listened on";
  }
  url_ = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
  acceptor_ = std::jthread([this] { accept_loop(); });
}

HttpTestServer::~HttpTestServer() {
  stopping_ = true;
  ::shutdown(listening_, SHUT_RDWR);
  acceptor_.join();
  ::close(listening_);
  {
    const std::lock_guard lock(mutex_);
    for (const int descriptor : open_) ::shutdown(descriptor, SHUT_RDWR);
  }
  threads_.clear();
}

void HttpTestServer::accept_loop() {
  while (!stopping_) {
    const int descriptor = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) continue;
    const int on = 1;
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ++connections_;
    const std::lock_guard lock(mutex_);
    open_.push_back(descriptor);
    threads_.emplace_back([this, descriptor] {
      serve(descriptor);
      const std::lock_guard closing(mutex_);
      std::erase(open_, descriptor);
      ::close(descriptor);
    });
  }
}

void HttpTestServer::serve(int descriptor) {
  std::string received;
  for (;;) {
    std::size_t end = 0;
    while ((end = received.find("\r\n\r\n")) == std::string::npos) {
      if (received.size() > kMostHeaderBytes || !receive_more(descriptor, received)) return;
    }
    HttpCall call = parse_call(std::string_view(received).substr(0, end + 2));
    received.erase(0, end + 4);
    std::size_t length = 0;
    const std::string given = call.header("content-length");
    std::from_chars(given.data(), given.data() + given.size(), length);
    if (length > kMostRequestBytes) return;
    while (received.size() < length) {
      if (!receive_more(descriptor, received)) return;
    }
    call.body = received.substr(0, length);
    received.erase(0, length);
    ++requests_;
    if (!answer(descriptor, call)) return;
  }
}

// False when the connection is not to be used further.
bool HttpTestServer::answer(int descriptor, const HttpCall& call) {
  const CannedResponse answer = handler_(call);
  if (answer.delay.count() > 0) std::this_thread::sleep_for(answer.delay);
  if (answer.hang_up) return false;
  std::string header = fmt::format("HTTP/1.1 {} Status\r\n", answer.status);
  bool has_length = false;
  for (const auto& [name, value] : answer.headers) {
    header += fmt::format("{}: {}\r\n", name, value);
    has_length |= lower_case(name) == "content-length";
  }
  if (!has_length) {
    header +=
        fmt::format("Content-Length: {}\r\n", answer.claimed_length.value_or(answer.body.size()));
  }
  if (!send_all(descriptor, header + "\r\n")) return false;
  if (call.method == "HEAD") return true;
  const std::string_view body =
      std::string_view(answer.body).substr(0, answer.cut_after.value_or(answer.body.size()));
  return send_all(descriptor, body) && !answer.cut_after && !answer.claimed_length;
}

}  // namespace muster::testing
