#include "muster/testing/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace muster::testing {

std::string run_on_terminal(const std::filesystem::path& program,
                            std::vector<std::string> arguments,
                            const std::vector<std::string>& environment) {
  arguments.insert(arguments.begin(), program.string());
  std::vector<std::string> settings = environment;
  std::vector<char*> words;
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  int terminal = -1;
  const pid_t process = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (process == 0) {
    for (std::string& setting : settings) ::putenv(setting.data());
    ::execv(words.front(), words.data());
    ::_exit(127);
  }
  EXPECT_GT(process, 0);
  if (process < 0) return "";
  std::string out;
  char piece[4096];
  // Reading fails when the other end is closed.
  for (ssize_t count = 0; (count = ::read(terminal, piece, sizeof piece)) > 0;) {
    out.append(piece, static_cast<std::size_t>(count));
  }
  ::close(terminal);
  ::waitpid(process, nullptr, 0);
  return out;
}

}  // namespace muster::testing
