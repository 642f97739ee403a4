#include "muster/testing/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster::testing {
namespace {

constexpr unsigned kMostSeconds = 120;

// In the child: only calls that are safe between fork and exec.
[[noreturn]] void become(char* const* argv, int out, int err, char* const* environment) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  for (; *environment != nullptr; ++environment) ::putenv(*environment);
  ::alarm(kMostSeconds);
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

Outcome run_program(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment) {
  const TempDir folder;
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment;
  const auto argv = pointers(words);
  const auto environment_pointers = pointers(variables);
  const int out = open_for_child(folder / "out");
  const int err = open_for_child(folder / "err");
  const pid_t child = ::fork();
  if (child < 0) throw_errno(errno, "starting " + program.string());
  if (child == 0) become(argv.data(), out, err, environment_pointers.data());
  ::close(out);
  ::close(err);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw_errno(errno, "waiting for " + program.string());
  }
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = read_bytes(folder / "out"),
          .err = read_bytes(folder / "err")};
}

}  // namespace muster::testing
