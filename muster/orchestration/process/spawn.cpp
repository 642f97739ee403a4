#include "muster/orchestration/process/spawn.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include "muster/base/error.h"

namespace muster::process {

Spawn::Spawn() {
  ::posix_spawn_file_actions_init(&files_);
  ::posix_spawnattr_init(&attributes_);
}

Spawn::~Spawn() {
  ::posix_spawnattr_destroy(&attributes_);
  ::posix_spawn_file_actions_destroy(&files_);
}

void Spawn::give(int stream, int descriptor) {
  ::posix_spawn_file_actions_adddup2(&files_, descriptor, stream);
}

void Spawn::open(int stream, const Path& file, int flags, mode_t mode) {
  ::posix_spawn_file_actions_addopen(&files_, stream, file.c_str(), flags, mode);
}

pid_t Spawn::start_in_own_group(const std::vector<std::string>& command) {
  ::posix_spawnattr_setpgroup(&attributes_, 0);
  return start(command, POSIX_SPAWN_SETPGROUP);
}

pid_t Spawn::start_in_own_session(const std::vector<std::string>& command) {
  return start(command, POSIX_SPAWN_SETSID);
}

pid_t Spawn::start(const std::vector<std::string>& command, int flags) {
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes_, &signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD}) {
    ::sigaddset(&signals, signal);
  }
  ::posix_spawnattr_setsigdefault(&attributes_, &signals);
  ::posix_spawnattr_setflags(
      &attributes_, static_cast<short>(flags | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  pid_t process = -1;
  const int error =
      ::posix_spawnp(&process, argv.front(), &files_, &attributes_, argv.data(), environ);
  if (error != 0) throw_errno(error, fmt::format("starting {}", command.front()));
  return process;
}

pid_t start_detached(const std::vector<std::string>& command, const Path& log) {
  Spawn spawn;
  spawn.open(STDIN_FILENO, "/dev/null", O_RDONLY);
  spawn.open(STDOUT_FILENO, "/dev/null", O_WRONLY);
  spawn.open(STDERR_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
  return spawn.start_in_own_session(command);
}

}  // namespace muster::process
