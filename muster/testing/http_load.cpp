#include "muster/testing/http_load.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace muster::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{60};

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

struct Answer {
  int status = 0;
  std::size_t header_bytes = 0;
  std::size_t body_bytes = 0;
};

// False when the answer is not whole yet.
bool parse_answer(const std::string& text, Answer& answer) {
  const auto end = text.find("\r\n\r\n");
  if (end == text.npos) return false;
  std::from_chars(text.data() + text.find(' ') + 1, text.data() + text.size(), answer.status);
  constexpr std::string_view kLength = "Content-Length: ";
  const auto length = text.find(kLength);
  if (length < end) {
    std::from_chars(text.data() + length + kLength.size(), text.data() + end, answer.body_bytes);
  }
  answer.header_bytes = end + 4;
  return text.size() >= answer.header_bytes + answer.body_bytes;
}

class Client {
 public:
  Client(const HttpLoad& load, HttpLoadResult& result)
      : load_(load), result_(result), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (std::size_t i = 0; i < load_.connections; ++i) {
      connections_.push_back(std::make_unique<Connection>());
      open(*connections_.back());
    }
  }
  ~Client() {
    for (const auto& connection : connections_) ::close(connection->descriptor);
    ::close(epoll_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void run() {
    const auto begin = Clock::now();
    const auto end = begin + load_.time;
    std::uint64_t sent = 0;
    for (auto now = begin; now < end; now = Clock::now()) {
      const auto due = load_.rate > 0
                           ? static_cast<std::uint64_t>(seconds_between(begin, now) * load_.rate)
                           : sent + free_.size();
      for (; sent < due && !free_.empty(); ++sent) ask();
      // Requests that could not be sent for want of a connection are not made up for.
      if (load_.rate > 0) sent = due;
      take_answers(1);
    }
    result_.lasted = seconds_between(begin, Clock::now());
    result_.in_time = result_.statuses[200];
    asks_ = false;
    while (free_.size() < connections_.size() && Clock::now() < end + kPatience) take_answers(100);
  }

 private:
  struct Connection {
    int descriptor = -1;
    std::string received{};
    Clock::time_point asked{};
  };

  void open(Connection& connection) {
    connection.descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(
        static_cast<std::uint16_t>(std::stoi(load_.address.substr(load_.address.rfind(':') + 1))));
    if (::connect(connection.descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
      throw std::runtime_error("cannot connect to " + load_.address + ": " + std::strerror(errno));
    }
    const int one = 1;
    ::setsockopt(connection.descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &connection;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.descriptor, &event);
    connection.received.clear();
    free_.push_back(&connection);
  }

  void ask() {
    Connection& connection = *free_.back();
    free_.pop_back();
    connection.asked = Clock::now();
    std::string_view left = load_.request;
    while (!left.empty()) {
      const ssize_t count = ::send(connection.descriptor, left.data(), left.size(), MSG_NOSIGNAL);
      if (count <= 0) break;
      left.remove_prefix(static_cast<std::size_t>(count));
    }
    if (!left.empty()) begin_again(connection);
  }

  void begin_again(Connection& connection) {
    ++result_.broken;
    ::close(connection.descriptor);
    open(connection);
  }

  void take_answers(int milliseconds) {
    epoll_event events[64];
    const bool has_more_to_ask = asks_ && load_.rate == 0 && !free_.empty();
    const int count = ::epoll_wait(epoll_, events, 64, has_more_to_ask ? 0 : milliseconds);
    for (int i = 0; i < count; ++i) take(*static_cast<Connection*>(events[i].data.ptr));
  }

  void take(Connection& connection) {
    char piece[1 << 16];
    const ssize_t size = ::recv(connection.descriptor, piece, sizeof piece, 0);
    if (size <= 0) return begin_again(connection);
    connection.received.append(piece, static_cast<std::size_t>(size));
    Answer answer;
    if (!parse_answer(connection.received, answer)) return;
    const auto now = Clock::now();
    ++result_.statuses[answer.status];
    if (answer.status == 200) result_.seconds.push_back(seconds_between(connection.asked, now));
    const auto body = connection.received.substr(answer.header_bytes);
    const auto first = bodies_.emplace(answer.status, body).first;
    if (answer.status == 200 && first->second != body) ++result_.different;
    connection.received.clear();
    free_.push_back(&connection);
  }

  const HttpLoad& load_;
  HttpLoadResult& result_;
  int epoll_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> free_;
  std::map<int, std::string> bodies_;
  bool asks_ = true;
};

}  // namespace

double HttpLoadResult::goodput() const {
  return lasted > 0 ? static_cast<double>(in_time) / lasted : 0;
}

double HttpLoadResult::quantile(double share) const {
  if (seconds.empty()) return 0;
  return seconds[std::min(seconds.size() - 1,
                          static_cast<std::size_t>(share * static_cast<double>(seconds.size())))];
}

HttpLoadResult run(const HttpLoad& load) {
  HttpLoadResult result;
  Client(load, result).run();
  std::ranges::sort(result.seconds);
  return result;
}

}  // namespace muster::testing
