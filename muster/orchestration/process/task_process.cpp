#include "muster/orchestration/process/task_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/program.h"
#include "muster/orchestration/process/descriptor.h"
#include "muster/platform/cluster/process_environment.h"

namespace muster::process {
namespace {

constexpr int kExitNotStarted = 127;

int open_or_throw(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (file < 0) throw_errno(errno, "opening " + path);
  return file;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  list.reserve(words.size() + 1);
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

// Data of the child, made before fork: after it only calls that are safe there.
struct Prepared {
  char* const* argv;
  char* const* environment;
  const char* working_directory;
  int input;
  int log;
  int failure;
  pid_t parent;
  /// Null: all of the parent's.
  const cpu_set_t* processors;
};

void restore_signals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::signal(signal, SIG_DFL);
}

[[noreturn]] void become(const Prepared& prepared) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  // It may have ended before that call.
  if (::getppid() != prepared.parent) ::_exit(kExitNotStarted);
  restore_signals();
  // One that was taken away meanwhile is not worth a run.
  if (prepared.processors != nullptr) {
    ::sched_setaffinity(0, sizeof(*prepared.processors), prepared.processors);
  }
  ::dup2(prepared.input, STDIN_FILENO);
  ::dup2(prepared.log, STDOUT_FILENO);
  ::dup2(prepared.log, STDERR_FILENO);
  if (prepared.working_directory == nullptr || ::chdir(prepared.working_directory) == 0) {
    ::execvpe(prepared.argv[0], prepared.argv, prepared.environment);
  }
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(prepared.failure, &error, sizeof(error));
  ::_exit(kExitNotStarted);
}

// The pipe closes by itself when exec succeeds.
void throw_if_not_started(int failure, pid_t process, const std::string& program) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure, &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof(error))) return;
  ::waitpid(process, nullptr, 0);
  throw_errno(error, "starting " + program);
}

}  // namespace

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  EnvironmentVariables variables = variables_of_this_process();
  for (const std::string& entry : more) {
    const auto equals = entry.find('=');
    variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  std::vector<std::string> list;
  list.reserve(variables.size());
  for (const auto& [name, value] : variables) list.push_back(fmt::format("{}={}", name, value));
  return list;
}

EndOfProcess end_of(int wait_status) {
  if (WIFEXITED(wait_status)) return {.status = WEXITSTATUS(wait_status)};
  return {.status = kStatusOfSignals + WTERMSIG(wait_status), .killed = true};
}

pid_t start_process(const StartOptions& options) {
  if (options.command.empty()) throw InvalidArgument("no program to start");
  std::vector<std::string> words = options.command;
  std::vector<std::string> variables = environment_with(options.environment);
  const auto argv = pointers(words);
  const auto environment = pointers(variables);
  const Descriptor nothing(open_or_throw("/dev/null", O_RDONLY));
  const Descriptor log(open_or_throw(options.log.string(), O_WRONLY | O_CREAT | O_APPEND));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "making a pipe");
  const Descriptor failure(ends[0]);
  Descriptor failure_of_child(ends[1]);
  const std::string folder = options.working_directory ? options.working_directory->string() : "";
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (options.processor) CPU_SET(static_cast<std::size_t>(*options.processor), &processors);
  const Prepared prepared{.argv = argv.data(),
                          .environment = environment.data(),
                          .working_directory = folder.empty() ? nullptr : folder.c_str(),
                          .input = options.input.value_or(nothing.get()),
                          .log = log.get(),
                          .failure = failure_of_child.get(),
                          .parent = ::getpid(),
                          .processors = options.processor ? &processors : nullptr};
  const pid_t process = ::fork();
  if (process < 0) throw_errno(errno, "starting " + options.command.front());
  if (process == 0) become(prepared);
  ::setpgid(process, process);  // Also here, so that the group exists whichever runs first.
  failure_of_child.close();
  throw_if_not_started(failure.get(), process, options.command.front());
  return process;
}

std::optional<EndOfProcess> reap(pid_t process) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  // Before its number is given free, or the group could be another's.
  ::kill(-process, SIGKILL);
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return end_of(status);
}

}  // namespace muster::process
