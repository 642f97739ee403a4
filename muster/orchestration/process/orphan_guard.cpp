#include "muster/orchestration/process/orphan_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/wait.h"
#include "muster/orchestration/process/process_identity.h"

namespace muster::process {
namespace {

constexpr std::chrono::milliseconds kGuardNap{20};
constexpr int kPipe = STDERR_FILENO + 1;

bool has_members(pid_t group) { return ::kill(-group, 0) == 0; }

// The group of a task that is gone except for what it started, such as the program of a shell
// script.
void ask_leftovers(const std::set<pid_t>& groups, std::set<pid_t>& asked) {
  for (const pid_t group : groups) {
    if (identify(group) || !asked.insert(group).second) continue;
    ::kill(-group, SIGTERM);
  }
}

void end_groups(std::set<pid_t> groups, std::chrono::milliseconds grace) {
  const Deadline deadline = Deadline::after(grace);
  std::set<pid_t> asked;
  while (!groups.empty() && !deadline.expired()) {
    ask_leftovers(groups, asked);
    std::erase_if(groups, [](pid_t group) { return !has_members(group); });
    std::this_thread::sleep_for(kGuardNap);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
}

// Holds nothing of the launcher's open: who reads its output must see the end of it.
void leave_the_launcher(int pipe) {
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
  ::prctl(PR_SET_NAME, "muster-guard");
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(nothing, standard);
  }
  ::dup2(pipe, kPipe);
  ::closefrom(kPipe + 1);
}

[[noreturn]] void guard(int pipe, std::chrono::milliseconds grace) {
  leave_the_launcher(pipe);
  pipe = kPipe;
  std::set<pid_t> groups;
  for (;;) {
    pid_t group = 0;
    const ssize_t count = ::read(pipe, &group, sizeof(group));
    if (count < 0 && errno == EINTR) continue;
    if (count != static_cast<ssize_t>(sizeof(group))) break;
    if (group > 0) {
      groups.insert(group);
    } else {
      groups.erase(-group);
    }
  }
  end_groups(std::move(groups), grace);
  ::_exit(0);
}

}  // namespace

OrphanGuard::OrphanGuard(std::chrono::milliseconds grace) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "making a pipe");
  process_ = ::fork();
  if (process_ < 0) throw_errno(errno, "starting the guard of the tasks");
  if (process_ == 0) {
    ::close(ends[1]);
    guard(ends[0], grace);
  }
  ::close(ends[0]);
  pipe_ = ends[1];
}

OrphanGuard::~OrphanGuard() {
  ::close(pipe_);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void OrphanGuard::tell(pid_t group) const {
  // Without the guard the tasks still get the kernel's signal.
  [[maybe_unused]] const auto written = ::write(pipe_, &group, sizeof(group));
}

}  // namespace muster::process
