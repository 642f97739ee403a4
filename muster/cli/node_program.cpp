#include "muster/cli/node_program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <string.h>  // NOLINT(modernize-deprecated-headers): sigabbrev_np() is not in <cstring>.
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/program.h"
#include "muster/base/wait.h"
#include "muster/orchestration/process/descriptor.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kEndNap{1};
constexpr std::chrono::seconds kEndPatience{10};

std::string text_of(const process::EndOfProcess& end) {
  if (!end.killed) return fmt::format("exited with status {}", end.status);
  const int signal = end.status - kStatusOfSignals;
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("was killed by SIG{}", name)
                         : fmt::format("was killed by signal {}", signal);
}

class NodeFork final : public serving::NodeProcess {
 public:
  NodeFork(WorkerProgram::Worker worker, int output)
      : worker_(std::move(worker)), output_(output) {}

  ~NodeFork() override {
    if (ended()) return;
    ::kill(worker_.process, SIGKILL);
    const Deadline deadline = Deadline::after(kEndPatience);
    while (!ended() && !deadline.expired()) std::this_thread::sleep_for(kEndNap);
  }

  pid_t process() const override { return worker_.process; }
  int output() const override { return output_.get(); }
  void send(int signal) override {
    if (!end_) ::kill(worker_.process, signal);
  }
  std::optional<std::string> ended() override {
    if (!end_) end_ = WorkerProgram::ended(worker_);
    return end_ ? std::optional(text_of(*end_)) : std::nullopt;
  }

 private:
  const WorkerProgram::Worker worker_;
  const process::Descriptor output_;
  std::optional<process::EndOfProcess> end_{};
};

}  // namespace

NodeProgram::NodeProgram(Options options)
    : options_(std::move(options)), program_(options_.program) {}

std::unique_ptr<serving::NodeProcess> NodeProgram::start(int number) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "making a pipe for a node");
  process::Descriptor output(ends[0]);
  const process::Descriptor input(ends[1]);
  // This end alone: a node waits where it is full.
  ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
  auto worker = program_.start({.arguments = options_.arguments(number),
                                .environment = options_.environment,
                                .out = input.get(),
                                .err = STDERR_FILENO});
  return std::make_unique<NodeFork>(std::move(worker), output.release());
}

}  // namespace muster::cli
