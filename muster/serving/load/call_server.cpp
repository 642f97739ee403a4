#include "muster/serving/load/call_server.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

constexpr std::chrono::milliseconds kLongestPoll{1000};

class OneCall {
 public:
  OneCall(const ServerAddress& server, bool over_grpc, const std::string& token,
          const Deadline& deadline)
      : server_(server), deadline_(deadline), socket_(server) {
    const ClientSession::Options options{
        .authority = server.text, .token = token, .keep_bodies = true};
    const auto on_answer = [this](ClientAnswer answer) { answer_ = std::move(answer); };
    session_ = over_grpc ? grpc_session(options, on_answer) : http1_session(options, on_answer);
  }

  ClientAnswer ask(const PreparedRequest& request) {
    wait_for(POLLOUT);
    if (const int failure = socket_.failure(); failure != 0) {
      throw Unavailable("no server answers at {}: {}", server_.text, std::strerror(failure));
    }
    session_->send(0, request);
    std::string output;
    std::string input;
    bool has_received = false;
    while (!answer_) {
      session_->take_output(output);
      const long sent = socket_.send(output);
      if (sent > 0) output.erase(0, static_cast<std::size_t>(sent));
      wait_for(output.empty() ? POLLIN : POLLIN | POLLOUT);
      input.clear();
      const bool lives = socket_.receive(input);
      has_received = has_received || !input.empty();
      const bool goes_on = input.empty() || session_->receive(input);
      if (lives && goes_on) continue;
      session_->close(has_received ? "the server has closed the connection"
                                   : "the server has closed the connection without a word: it may "
                                     "not speak this protocol");
    }
    return std::move(*answer_);
  }

 private:
  void wait_for(int events) const {
    pollfd one{.fd = socket_.descriptor(), .events = static_cast<short>(events), .revents = 0};
    while (true) {
      if (deadline_.expired()) throw Unavailable("{} gives no answer in time", server_.text);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          std::min<Deadline::Clock::duration>(deadline_.remaining(), kLongestPoll));
      const int ready = ::poll(&one, 1, static_cast<int>(left.count()));
      if (ready > 0) return;
      if (ready < 0 && errno != EINTR) throw_errno(errno, "waiting for " + server_.text);
    }
  }

  const ServerAddress& server_;
  const Deadline deadline_;
  const ClientSocket socket_;
  std::unique_ptr<ClientSession> session_{};
  std::optional<ClientAnswer> answer_{};
};

}  // namespace

std::string call_server(const ServerAddress& server, bool over_grpc, const std::string& token,
                        const PreparedRequest& request, const Deadline& deadline) {
  ClientAnswer answer = OneCall(server, over_grpc, token, deadline).ask(request);
  if (answer.kind == AnswerKind::kOk) return std::move(answer.body);
  if (answer.error == "bad answer") {
    throw FailedPrecondition("{}: {}: the server may not speak this protocol", server.text,
                             answer.message);
  }
  const std::string text =
      fmt::format("{} answers {}: {}", server.text, answer.error, answer.message);
  const bool is_passing = answer.kind == AnswerKind::kNotTaken || answer.error == "UNAVAILABLE" ||
                          answer.error == "HTTP 503" || answer.error == "connection closed";
  if (is_passing) throw Unavailable("{}", text);
  throw FailedPrecondition("{}", text);
}

}  // namespace muster::serving
