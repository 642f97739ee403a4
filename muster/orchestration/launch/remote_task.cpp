#include <fmt/core.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string_view>

#include "muster/base/error.h"
#include "muster/orchestration/launch/remote_task_internal.h"
#include "muster/orchestration/launch/shell_words_internal.h"
#include "muster/orchestration/process/descriptor.h"
#include "muster/platform/cluster/process_environment.h"

namespace muster::launch {
namespace {

// $1 is the folder, $2 the grace in seconds, the rest the program. The task leads a session, so
// that signals reach what it starts. The reader of signals must not keep ssh's output open: ssh
// would wait for it.
constexpr const char* kScript = R"sh(
while IFS= read -r line && [ -n "$line" ]; do export "$line"; done
cd "$1" || exit 2
grace=$2
shift 2
exec 3<&0
setsid "$@" </dev/null 3<&- &
task=$!
(
  while read -r signal <&3; do kill -s "$signal" -- "-$task"; done
  kill -s TERM -- "-$task"
  sleep "$grace"
  kill -s KILL -- "-$task"
) >/dev/null 2>&1 &
reader=$!
exec 3<&-
wait "$task"
status=$?
kill -s KILL "$reader" 2>/dev/null
exit "$status"
)sh";

// A connection that hears nothing for 15 s is lost, as the task at its other end then is.
const std::vector<std::string>& ssh_options() {
  static const std::vector<std::string> options{
      "-T",
      "-o",
      "BatchMode=yes",
      "-o",
      "ConnectTimeout=15",
      "-o",
      "ServerAliveInterval=5",
      "-o",
      "ServerAliveCountMax=3",
  };
  return options;
}

std::string folder_of(const LaunchOptions& options) {
  return std::filesystem::absolute(options.working_directory.value_or(".")).lexically_normal();
}

void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // It has ended already, and says why.
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

std::vector<std::string> remote_command(const LaunchOptions& options, const LaunchTask& task) {
  const std::chrono::duration<double> grace = options.grace;
  std::string line = fmt::format("exec /bin/sh -c {} sh {} {:g}", for_shell(kScript),
                                 for_shell(folder_of(options)), grace.count());
  for (const std::string& word : options.command) line += " " + for_shell(word);
  std::vector<std::string> words = options.ssh;
  words.insert(words.end(), ssh_options().begin(), ssh_options().end());
  words.insert(words.end(), {"--", task.host, line});
  return words;
}

std::string remote_environment(const LaunchTask& task) {
  std::string lines;
  const auto add = [&](const std::string& entry) {
    if (entry.find('\n') != std::string::npos) {
      throw InvalidArgument("{} has a line break, and so cannot be given to a task on {}",
                            entry.substr(0, entry.find('=')), task.host);
    }
    lines += entry + "\n";
  };
  for (const auto& [name, value] : variables_of_this_process()) {
    if (name.starts_with("MUSTER_")) add(fmt::format("{}={}", name, value));
  }
  std::ranges::for_each(task.environment, add);
  return lines + "\n";
}

void start_task(const LaunchOptions& options, Running& running, const Path& log) {
  if (running.task.host.empty()) {
    running.pid = process::start_process({.command = options.command,
                                          .environment = running.task.environment,
                                          .log = log,
                                          .working_directory = options.working_directory,
                                          .processor = running.task.processor});
    return;
  }
  const std::string lines = remote_environment(running.task);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_errno(errno, "making a socket");
  }
  running.control = std::make_unique<process::Descriptor>(ends[0]);
  const process::Descriptor input(ends[1]);
  running.pid = process::start_process(
      {.command = remote_command(options, running.task), .log = log, .input = input.get()});
  send_all(ends[0], lines);
}

void Running::send(int signal) {
  const char* const name = signal == SIGKILL  ? "KILL\n"
                           : signal == SIGINT ? "INT\n"
                           : signal == SIGHUP ? "HUP\n"
                                              : "TERM\n";
  // A task on another host is asked there: ssh itself would only hang up.
  if (control == nullptr || ::send(control->get(), name, std::string_view(name).size(),
                                   MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    ::kill(-pid, signal);
  }
  was_asked = true;
}

}  // namespace muster::launch
