#include "muster/testing/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/open_file.h"

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
  if (nothing < 0) ::_exit(127);
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
  list.reserve(words.size() + 1);
  for (auto& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

// Which know how to be warm, and are started many times by one test.
WarmProgram* warm_program(const std::filesystem::path& program, const ProgramOptions& options) {
  static const std::set<std::string> names{
      "census", "cifar10", "cluster_job", "experiment_job", "mnist", "muster-torch", "own_loop"};
  // Variables that are read when a program is loaded, or are to hold from its beginning.
  const bool differs = std::ranges::any_of(options.environment, [](std::string_view variable) {
    return variable.starts_with("OMP_") || variable.starts_with("OPENBLAS_") ||
           variable.starts_with("LD_") || variable.starts_with("ATEN_");
  });
  if (differs || options.most_file_bytes || !names.contains(program.filename())) return nullptr;
  static std::map<std::filesystem::path, std::unique_ptr<WarmProgram>> programs;
  auto& warm = programs[program];
  if (warm == nullptr) warm = std::make_unique<WarmProgram>(program);
  return warm.get();
}

// Environment of the test, with the given variables instead of its own.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  const auto is_given = [&](std::string_view variable) {
    const auto name = variable.substr(0, variable.find('=') + 1);
    return std::ranges::any_of(more, [&](const std::string& one) { return one.starts_with(name); });
  };
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!is_given(*variable)) all.emplace_back(*variable);
  }
  return all;
}

int open_for_child(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) throw_errno(errno, "opening " + path.string());
  return file;
}

}  // namespace

RunningProgram::RunningProgram(const std::filesystem::path& program,
                               const std::vector<std::string>& arguments,
                               const ProgramOptions& options)
    : program_(program), warm_(warm_program(program, options)) {
  const int out = open_for_child(folder_ / "out");
  const int err = open_for_child(folder_ / "err");
  start(arguments, options, out, err);
  ::close(out);
  ::close(err);
}

void RunningProgram::start(const std::vector<std::string>& arguments, const ProgramOptions& options,
                           int out, int err) {
  if (warm_ != nullptr) {
    const OpenFile nothing("/dev/null", O_RDONLY);
    process_ = warm_->start({.arguments = arguments,
                             .environment = environment_with(options.environment),
                             .working_directory = std::filesystem::current_path(),
                             .in = nothing.get(),
                             .out = out,
                             .err = err,
                             .seconds = most_seconds()});
    return;
  }
  std::vector<std::string> words{program_.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = options.environment;
  const auto argv = pointers(words);
  const auto environment = pointers(variables);
  rlimit limit{};
  if (options.most_file_bytes) limit = {*options.most_file_bytes, *options.most_file_bytes};
  const unsigned seconds = most_seconds();
  process_ = ::fork();
  if (process_ < 0) throw_errno(errno, "starting " + program_.string());
  if (process_ == 0) {
    become(argv.data(), out, err, environment.data(), options.most_file_bytes ? &limit : nullptr,
           seconds);
  }
}

RunningProgram::~RunningProgram() {
  if (status_) return;
  ::kill(process_, SIGKILL);
  wait();
}

void RunningProgram::send(int signal) const {
  if (!status_) ::kill(process_, signal);
}

bool RunningProgram::ended() {
  if (status_) return true;
  if (warm_ != nullptr) {
    status_ = warm_->ended(process_);
  } else if (int status = 0; ::waitpid(process_, &status, WNOHANG) == process_) {
    status_ = status;
  }
  return status_.has_value();
}

Outcome RunningProgram::wait() {
  if (!status_ && warm_ != nullptr) status_ = warm_->wait(process_);
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
