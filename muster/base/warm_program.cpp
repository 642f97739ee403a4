#include "muster/base/warm_program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/program.h"

namespace muster {
namespace {

constexpr const char* kSocketVariable = "MUSTER_WARM_SOCKET";
constexpr std::size_t kStreams = 3;
// Arguments and environment of a program may have no more on Linux by default.
constexpr std::uint64_t kMostStartBytes = std::uint64_t{8} << 20;
// How long a program may take to see that no more forks are asked for.
constexpr std::chrono::seconds kEndGrace{10};
constexpr std::chrono::milliseconds kEndNap{1};
constexpr std::chrono::milliseconds kLongestPoll{std::numeric_limits<int>::max()};
// In the place of a status: it has begun.
constexpr std::int32_t kBegan = -1;

struct Header {
  std::uint64_t bytes = 0;
  std::uint32_t seconds = 0;
  std::uint32_t arguments = 0;
  std::int32_t end_signal = 0;
};

// Each ends with a zero byte, which none of them can contain.
std::string joined(const WarmProgram::Start& how) {
  std::string text = how.working_directory.string() + '\0';
  for (const auto* words : {&how.arguments, &how.environment}) {
    for (const std::string& word : *words) text.append(word).push_back('\0');
  }
  return text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const auto end = text.find('\0');
    if (end == std::string_view::npos) throw DataLoss("a warm start ends inside a word");
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return words;
}

constexpr const char* kHasEnded =
    "it has ended, or has no run_main(argc, argv, body) that could keep it warm";

[[noreturn]] void throw_of_send() {
  if (errno == EPIPE || errno == ECONNRESET) throw Unavailable("{}", kHasEnded);
  throw_errno(errno, "telling a warm program");
}

void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_of_send();
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

// False at the end of the stream.
bool receive_all(int socket, std::span<char> into) {
  while (!into.empty()) {
    const ssize_t count = ::recv(socket, into.data(), into.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    // Reset: it ended before it read what it was asked.
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return false;
    if (count < 0) throw_errno(errno, "hearing of a warm program");
    into = into.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

// The descriptors travel with the header.
union Control {
  std::array<char, CMSG_SPACE(kStreams * sizeof(int))> bytes;
  cmsghdr align;
};

/// A header and room for the descriptors, as sendmsg() and recvmsg() take them.
struct HeaderMessage {
  explicit HeaderMessage(Header& header) : part{&header, sizeof header} {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
  }
  HeaderMessage(const HeaderMessage&) = delete;
  HeaderMessage& operator=(const HeaderMessage&) = delete;

  iovec part;
  msghdr message{};
  Control control{};
};

void send_header(int socket, Header header, const std::array<int, kStreams>& streams) {
  HeaderMessage with(header);
  cmsghdr* const rights = CMSG_FIRSTHDR(&with.message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof streams);
  std::memcpy(CMSG_DATA(rights), streams.data(), sizeof streams);
  ssize_t count = 0;
  do {
    count = ::sendmsg(socket, &with.message, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw_of_send();
  send_all(socket, {reinterpret_cast<const char*>(&header) + count,
                    sizeof header - static_cast<std::size_t>(count)});
}

// Nothing at the end of the stream.
std::optional<Header> receive_header(int socket, std::array<int, kStreams>& streams) {
  Header header;
  HeaderMessage with(header);
  ssize_t count = 0;
  do {
    count = ::recvmsg(socket, &with.message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) return std::nullopt;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&with.message);
  if (rights == nullptr || rights->cmsg_len != CMSG_LEN(sizeof streams)) {
    throw DataLoss("a warm start comes without its streams");
  }
  std::memcpy(streams.data(), CMSG_DATA(rights), sizeof streams);
  const std::span<char> all(reinterpret_cast<char*>(&header), sizeof header);
  if (!receive_all(socket, all.subspan(static_cast<std::size_t>(count)))) return std::nullopt;
  return header;
}

/// The warm program's side.
class Server {
 public:
  explicit Server(int socket) : socket_(socket) {}

  // Returns in forks alone.
  std::vector<std::string> serve(const char* program) {
    for (;;) {
      std::vector<pollfd> waits{{.fd = socket_, .events = POLLIN, .revents = 0}};
      for (const auto& fork : forks_) {
        waits.push_back({.fd = fork.second, .events = POLLIN, .revents = 0});
      }
      if (::poll(waits.data(), waits.size(), /*timeout=*/-1) < 0 && errno != EINTR) {
        throw_errno(errno, "waiting for forks");
      }
      report_ends();
      if (waits.front().revents == 0) continue;
      if (auto arguments = start(program)) return std::move(*arguments);
    }
  }

 private:
  void report_ends() {
    std::erase_if(forks_, [this](const auto& fork) {
      int status = 0;
      if (::waitpid(fork.first, &status, WNOHANG) != fork.first) return false;
      ::close(fork.second);
      report(fork.first, status);
      return true;
    });
  }

  void report(pid_t fork, std::int32_t status) const {
    const std::array<std::int32_t, 2> words{fork, status};
    send_all(socket_, {reinterpret_cast<const char*>(words.data()), sizeof words});
  }

  // The arguments in the fork.
  std::optional<std::vector<std::string>> start(const char* program) {
    std::array<int, kStreams> streams{};
    const auto header = receive_header(socket_, streams);
    // No more forks are asked for. No destructor of the program has anything to do.
    if (!header) ::_exit(0);
    if (header->bytes > kMostStartBytes) {
      throw DataLoss("a warm start of {} bytes; at most {}", header->bytes, kMostStartBytes);
    }
    std::string text(header->bytes, '\0');
    if (!receive_all(socket_, text)) ::_exit(0);
    const pid_t parent = ::getpid();
    const pid_t fork = ::fork();
    if (fork < 0) throw_errno(errno, "starting a fork");
    if (fork == 0) {
      end_with(parent, header->end_signal);
      return become(program, *header, split(text), streams);
    }
    for (const int stream : streams) ::close(stream);
    // Declared by no header of this C library that C++ could use.
    const auto watched = static_cast<int>(::syscall(SYS_pidfd_open, fork, 0));
    if (watched < 0) throw_errno(errno, "watching a fork");
    forks_[fork] = watched;
    report(fork, kBegan);
    return std::nullopt;
  }

  static void end_with(pid_t parent, int signal) {
    if (signal == 0) return;
    ::prctl(PR_SET_PDEATHSIG, signal);
    // It may have ended before that call.
    if (::getppid() != parent) ::_exit(kStatusOfSignals + signal);
  }

  std::vector<std::string> become(const char* program, const Header& header,
                                  std::vector<std::string> words,
                                  const std::array<int, kStreams>& streams) {
    ::close(socket_);
    for (const auto& fork : forks_) ::close(fork.second);
    for (std::size_t i = 0; i < kStreams; ++i) {
      ::dup2(streams[i], static_cast<int>(i));
      ::close(streams[i]);
    }
    if (::chdir(words.front().c_str()) != 0) throw_errno(errno, "entering " + words.front());
    const auto end_of_arguments = words.begin() + 1 + header.arguments;
    ::clearenv();
    for (auto word = end_of_arguments; word != words.end(); ++word) {
      const auto equals = word->find('=');
      ::setenv(word->substr(0, equals).c_str(), word->substr(equals + 1).c_str(), 1);
    }
    if (header.seconds > 0) ::alarm(header.seconds);
    std::vector<std::string> arguments{program};
    arguments.insert(arguments.end(), words.begin() + 1, end_of_arguments);
    return arguments;
  }

  const int socket_;
  /// By fork: what tells its end.
  std::map<pid_t, int> forks_;
};

// `failure` closes by itself when exec succeeds.
[[noreturn]] void become_warm(const Path& program, int socket, int failure,
                              const WarmOptions& options) {
  if (options.own_group) ::setpgid(0, 0);
  // After the ones that every program has.
  const int number = ::fcntl(socket, F_DUPFD, kStreams);
  ::setenv(kSocketVariable, std::to_string(number).c_str(), 1);
  const std::string path = program.string();
  ::execl(path.c_str(), path.c_str(), nullptr);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

// The error of exec that a child wrote; 0 where it has become the program.
int error_of_exec(int failure) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure, &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof error) ? error : 0;
}

}  // namespace

WarmProgram::WarmProgram(Path program, const WarmOptions& options) : program_(std::move(program)) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_errno(errno, "making a socket for " + program_.string());
  }
  std::array<int, 2> failure{};
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    for (const int end : ends) ::close(end);
    throw_errno(error, "making a pipe for " + program_.string());
  }
  socket_ = ends[0];
  process_ = ::fork();
  if (process_ == 0) become_warm(program_, ends[1], failure[1], options);
  const int error_of_fork = process_ < 0 ? errno : 0;
  ::close(ends[1]);
  ::close(failure[1]);
  const int error = error_of_fork != 0 ? error_of_fork : error_of_exec(failure[0]);
  ::close(failure[0]);
  if (error == 0) return;
  ::close(socket_);
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
  throw_errno(error, "starting " + program_.string());
}

WarmProgram::~WarmProgram() {
  ::close(socket_);
  // One that still loads has nothing to finish.
  if (!was_asked_) ::kill(process_, SIGKILL);
  // It ends when it sees that its socket is closed; one that does something else may not.
  const Deadline deadline = Deadline::after(kEndGrace);
  while (::waitpid(process_, nullptr, WNOHANG) == 0) {
    if (deadline.expired()) ::kill(process_, SIGKILL);
    std::this_thread::sleep_for(kEndNap);
  }
}

std::optional<WarmProgram::Report> WarmProgram::next_report(const Deadline& deadline) {
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
    const int timeout =
        deadline.is_never() ? -1 : static_cast<int>(std::min(left, kLongestPoll).count());
    if (::poll(&ready, 1, timeout) >= 0) break;
    if (errno != EINTR) throw_errno(errno, "hearing of " + program_.string());
  }
  if (ready.revents == 0) return std::nullopt;
  Report report{};
  if (!receive_all(socket_, {reinterpret_cast<char*>(&report), sizeof report})) {
    throw Unavailable("{}: {}", program_.string(), kHasEnded);
  }
  return report;
}

pid_t WarmProgram::start(const Start& how) {
  const Deadline deadline = Deadline::after(how.limit);
  was_asked_ = true;
  const std::string text = joined(how);
  if (text.size() > kMostStartBytes) {
    throw InvalidArgument("arguments and environment have {} bytes; at most {}", text.size(),
                          kMostStartBytes);
  }
  try {
    send_header(socket_,
                {.bytes = text.size(),
                 .seconds = how.seconds,
                 .arguments = static_cast<std::uint32_t>(how.arguments.size()),
                 .end_signal = how.end_signal},
                {how.in, how.out, how.err});
    send_all(socket_, text);
  } catch (Error& error) {
    error.add_context(program_.string());
    throw;
  }
  for (;;) {
    const auto report = next_report(deadline);
    if (!report) {
      ::kill(process_, SIGKILL);
      throw DeadlineExceeded(
          "{} has not begun a fork in {} s: it does not load, or has no run_main(argc, argv, body) "
          "that could keep it warm",
          program_.string(), std::chrono::duration<double>(how.limit).count());
    }
    if (report->status == kBegan) return report->pid;
    statuses_[report->pid] = report->status;
  }
}

std::optional<int> WarmProgram::ended(pid_t fork) {
  while (const auto report = next_report(Deadline::after({})))
    statuses_[report->pid] = report->status;
  const auto found = statuses_.extract(fork);
  return found.empty() ? std::nullopt : std::optional(found.mapped());
}

int WarmProgram::wait(pid_t fork) {
  for (;;) {
    if (const auto status = ended(fork)) return *status;
    const auto report = next_report(Deadline::never());
    statuses_[report->pid] = report->status;
  }
}

std::optional<std::vector<std::string>> internal::warm_arguments(const char* program) {
  const char* const text = std::getenv(kSocketVariable);
  if (text == nullptr) return std::nullopt;
  const std::string number = text;
  ::unsetenv(kSocketVariable);
  return Server(std::atoi(number.c_str())).serve(program);
}

}  // namespace muster
