#include "muster/base/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>

namespace muster {
namespace {

// Each case runs in a child, whose exit status it is about.
template <typename Body>
int status_of_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(StopSignals, RemembersTheSignalAndGoesOn) {
  EXPECT_EQ(status_of_child([] {
              const StopSignals guard;
              if (StopSignals::received() != 0) return 1;
              ::raise(SIGTERM);
              return StopSignals::received() == SIGTERM ? 0 : 2;
            }),
            0);
}

TEST(StopSignals, CallsTheFunctionInAThread) {
  EXPECT_EQ(status_of_child([] {
              std::promise<int> seen;
              const StopSignals guard([&](int signal) { seen.set_value(signal); });
              ::raise(SIGINT);
              return seen.get_future().get() == SIGINT ? 0 : 1;
            }),
            0);
}

TEST(StopSignals, ASecondSignalEndsTheProcessAtOnce) {
  EXPECT_EQ(status_of_child([] {
              const StopSignals guard;
              ::raise(SIGTERM);
              ::raise(SIGINT);
              return 0;
            }),
            128 + SIGINT);
}

TEST(StopSignals, PutsTheOldHandlingBack) {
  EXPECT_EQ(status_of_child([] {
              { const StopSignals guard; }
              ::raise(SIGTERM);
              return 0;
            }),
            -SIGTERM);
}

TEST(Interrupted, GivesTheShellsExitStatus) {
  try {
    throw Interrupted(SIGTERM, "stopped at step {}", 7);
  } catch (...) {
    EXPECT_EQ(describe(std::current_exception()).exit_code, 143);
  }
}

}  // namespace
}  // namespace muster
