#include "muster/cli/http_call.h"

#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "muster/base/error.h"

namespace muster::cli {
namespace {

constexpr std::size_t kMostAnswerBytes = std::size_t{1} << 30;
constexpr int kAnswerSeconds = 120;

/// A connection to "host:port", closed at the end.
class Socket {
 public:
  explicit Socket(const std::string& address) {
    const auto colon = address.rfind(':');
    if (colon == std::string::npos) {
      throw UsageError("--server must be HOST:PORT: {}", address);
    }
    const std::string host = address.substr(0, colon);
    const std::string port = address.substr(colon + 1);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
      throw Unavailable("--server {}: {}", address, ::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    int failure = 0;
    for (const addrinfo* one = found; one != nullptr && descriptor_ < 0; one = one->ai_next) {
      failure = open(*one);
    }
    if (descriptor_ < 0) {
      throw Unavailable(
          "no server answers at {}: {}; start one with muster serve, or name it with "
          "--server HOST:PORT",
          address, std::generic_category().message(failure));
    }
  }
  ~Socket() { ::close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void send_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      // Stopped and continued by the user's shell.
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) throw Unavailable("the server went away while it was asked");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  std::string read_to_end() const {
    std::string text;
    char piece[1 << 16];
    while (true) {
      const ssize_t size = ::recv(descriptor_, piece, sizeof piece, 0);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) throw Unavailable("the server gave no answer within {} s", kAnswerSeconds);
      if (size == 0) return text;
      text.append(piece, static_cast<std::size_t>(size));
      if (text.size() > kMostAnswerBytes) throw ResourceExhausted("the answer is too large");
    }
  }

 private:
  // 0, or why not.
  int open(const addrinfo& address) {
    const int made = ::socket(address.ai_family, address.ai_socktype, address.ai_protocol);
    if (made < 0) return errno;
    const timeval limit{.tv_sec = kAnswerSeconds, .tv_usec = 0};
    ::setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(made, address.ai_addr, address.ai_addrlen) != 0) {
      const int failure = errno;
      ::close(made);
      return failure;
    }
    descriptor_ = made;
    return 0;
  }

  int descriptor_ = -1;
};

}  // namespace

std::string path_part(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// HTTP/1.0, so that the answer comes in one piece up to the end of the connection.
HttpReply http_call(const std::string& server, const std::string& method, const std::string& path,
                    const std::string& body) {
  std::string request = fmt::format(
      "{} {} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
      method, path, server, body.size());
  if (const char* const token = std::getenv("MUSTER_TOKEN")) {
    request += fmt::format("Authorization: Bearer {}\r\n", token);
  }
  const Socket socket(server);
  socket.send_all(request + "\r\n");
  socket.send_all(body);
  const std::string answer = socket.read_to_end();
  const auto end = answer.find("\r\n\r\n");
  HttpReply reply;
  const char* const status = answer.data() + std::string_view("HTTP/1.x ").size();
  if (!answer.starts_with("HTTP/1.") || end == std::string::npos || end < 12 ||
      std::from_chars(status, status + 3, reply.status).ec != std::errc()) {
    throw Unavailable("what answers at {} does not speak HTTP", server);
  }
  reply.body = answer.substr(end + 4);
  return reply;
}

}  // namespace muster::cli
