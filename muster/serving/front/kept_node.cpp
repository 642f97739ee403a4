#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/process_stat.h"
#include "muster/serving/front/kept_node_internal.h"

namespace muster::serving {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMostLine = 4096;
// Share of a processor: a process that waits takes less, one that computes more.
constexpr double kComputing = 0.05;

// Zero when the process is gone.
milliseconds processor_time(pid_t process) {
  const auto stat = process_stat(process);
  return stat ? stat->processor_time : milliseconds(0);
}

}  // namespace

KeptNode::KeptNode(int number, std::unique_ptr<NodeProcess> process,
                   const NodeKeeperOptions& options)
    : number_(number), process_(std::move(process)), options_(options) {}

double KeptNode::seconds() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

void KeptNode::read(FrontServer& front) {
  std::array<char, 1 << 10> piece{};
  for (;;) {
    const ssize_t size = ::read(process_->output(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    text_.append(piece.data(), static_cast<std::size_t>(size));
    for (auto end = text_.find('\n'); end != text_.npos; end = text_.find('\n')) {
      const std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      take_line(line, front);
    }
    if (text_.size() > kMostLine) text_.clear();
  }
}

void KeptNode::take_line(const std::string& line, FrontServer& front) {
  unsigned rest = 0;
  unsigned grpc = 0;
  if (state_ != State::kStarting ||
      std::sscanf(line.c_str(), "ports rest=%5u grpc=%5u", &rest, &grpc) != 2 || rest == 0 ||
      rest > 65535) {
    return;
  }
  node_ = std::make_shared<Node>(number_, loopback_address(static_cast<std::uint16_t>(rest)));
  state_ = State::kUp;
  log::info("node {} is up process={} address={} seconds={:.2f}", number_, process_->process(),
            node_->address.text, seconds());
  front.add(node_);
}

void KeptNode::look(FrontServer& front, bool has_others) {
  if (state_ == State::kStarting && Clock::now() - started_ > options_.start_timeout) {
    return kill(fmt::format("did not start in {} s", options_.start_timeout.count() / 1000));
  }
  if (state_ != State::kUp && state_ != State::kOut) return;
  if (state_ == State::kUp && has_others && node_->strikes >= kMostStrikes) {
    put_out(front, "failed requests that other nodes answered", /*is_lost=*/false);
  }
  look_at_probe(front);
  if (!probe_ && state_ != State::kEnding) ask(front);
}

void KeptNode::ask(FrontServer& front) {
  const auto now = Clock::now();
  const bool is_silent = state_ == State::kOut || node_->since_answer() > options_.probe_interval;
  if (!is_silent || now - asked_ < options_.probe_interval) return;
  asked_ = now;
  probe_ = std::make_shared<Probe>();
  probe_->computed = processor_time(process_->process());
  const auto longest = std::max(options_.hang_timeout, options_.compute_timeout);
  front.probe(node_, Deadline::after(longest), [probe = probe_](const FrontServer::Reply& reply) {
    probe->status = reply.status;
    probe->is_over = true;
  });
}

bool KeptNode::has_computed(const Probe& probe) const {
  const std::chrono::duration<double, std::milli> waited = Clock::now() - probe.since;
  const auto computed = processor_time(process_->process()) - probe.computed;
  return static_cast<double>(computed.count()) > kComputing * waited.count();
}

void KeptNode::look_at_probe(FrontServer& front) {
  if (!probe_) return;
  if (probe_->is_over) {
    const bool is_answered = probe_->status > 0;
    const bool is_right = is_answered && probe_->status < 500;
    if (is_answered) node_->note_answer();
    probe_.reset();
    if (state_ == State::kOut && is_right && Clock::now() >= returns_) {
      log::info("node {} answers again process={}", number_, process_->process());
      state_ = State::kUp;
      front.add(node_);
    }
    return;
  }
  // Another request may have been answered meanwhile: the wait begins with the last answer.
  if (const auto answered = node_->answered_at(); answered > probe_->since) {
    probe_->since = answered;
    probe_->computed = processor_time(process_->process());
  }
  const auto waited = Clock::now() - probe_->since;
  const bool computes = has_computed(*probe_);
  const auto patience = computes ? options_.compute_timeout / 2 : options_.probe_timeout;
  if (state_ == State::kUp && waited > patience) {
    put_out(front, "does not answer", /*is_lost=*/true);
  }
  if (waited > (computes ? options_.compute_timeout : options_.hang_timeout)) {
    kill("did not answer");
  }
}

void KeptNode::put_out(FrontServer& front, const std::string& reason, bool is_lost) {
  const auto pause = pauses_.next();
  returns_ = Clock::now() + (is_lost ? milliseconds(0) : pause);
  state_ = State::kOut;
  eject(front, *node_,
        {.reason = reason,
         .detail = fmt::format("process={}", process_->process()),
         .name = fmt::format("node {}", number_),
         .is_lost = is_lost});
}

void KeptNode::kill(const std::string& reason) {
  if (killed_for_) return;
  killed_for_ = reason;
  process_->send(SIGKILL);
}

void KeptNode::drain(FrontServer& front) {
  state_ = State::kDraining;
  front.remove(*node_);
}

void KeptNode::resume(FrontServer& front) {
  state_ = State::kUp;
  front.add(node_);
}

void KeptNode::end() {
  state_ = State::kEnding;
  process_->send(SIGTERM);
}

}  // namespace muster::serving
