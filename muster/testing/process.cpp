#include "muster/testing/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "muster/base/error.h"

namespace muster::testing {
namespace {

// A long test may need more: MUSTER_TEST_SECONDS.
unsigned most_seconds() {
  const char* text = std::getenv("MUSTER_TEST_SECONDS");
  return text == nullptr ? 120 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

// In the child: only calls that are safe between fork and exec.
[[noreturn]] void become(char* const* argv, int out, int err, char* const* environment,
                         const rlimit* file_limit, unsigned seconds) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  for (; *environment != nullptr; ++environment) ::putenv(*environment);
  if (file_limit != nullptr) {
    // Else the signal ends the program before it sees the error.
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, file_limit);
  }
  ::alarm(seconds);
  ::execv(argv[0], argv);
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (auto& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

int open_for_child(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) throw_errno(errno, "opening " + path.string());
  return file;
}

}  // namespace

RunningProgram::RunningProgram(const std::filesystem::path& program,
                               const std::vector<std::string>& arguments,
                               const ProgramOptions& options) {
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = options.environment;
  const auto argv = pointers(words);
  const auto environment = pointers(variables);
  rlimit limit{};
  if (options.most_file_bytes) limit = {*options.most_file_bytes, *options.most_file_bytes};
  const int out = open_for_child(folder_ / "out");
  const int err = open_for_child(folder_ / "err");
  const unsigned seconds = most_seconds();
  process_ = ::fork();
  if (process_ < 0) throw_errno(errno, "starting " + program.string());
  if (process_ == 0) {
    become(argv.data(), out, err, environment.data(), options.most_file_bytes ? &limit : nullptr,
           seconds);
  }
  ::close(out);
  ::close(err);
}

RunningProgram::~RunningProgram() {
  if (status_) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

void RunningProgram::send(int signal) const {
  if (!status_) ::kill(process_, signal);
}

bool RunningProgram::ended() {
  int status = 0;
  if (!status_ && ::waitpid(process_, &status, WNOHANG) == process_) status_ = status;
  return status_.has_value();
}

Outcome RunningProgram::wait() {
  int status = 0;
  while (!status_) {
    if (::waitpid(process_, &status, 0) == process_) {
      status_ = status;
    } else if (errno != EINTR) {
      throw_errno(errno, "waiting for a program");
    }
  }
  return {.status = WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_),
          .killed = WIFSIGNALED(*status_),
          .out = read_bytes(folder_ / "out"),
          .err = read_bytes(folder_ / "err")};
}

Outcome run_program(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment) {
  return RunningProgram(program, arguments, {.environment = environment}).wait();
}

}  // namespace muster::testing
