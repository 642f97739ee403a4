#include "muster/testing/forked.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace muster::testing {
namespace {

std::string read_line(int from) {
  std::string line;
  char byte = 0;
  while (::read(from, &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

[[noreturn]] void run(const Forked::Body& body, int from_parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 1;
  try {
    status = body([from_parent] { return read_line(from_parent); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "in the forked process: %s\n", error.what());
  }
  ::_exit(status);
}

}  // namespace

Forked::Forked(const Body& body) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe(ends), 0);
  process_ = ::fork();
  if (process_ == 0) {
    ::close(ends[1]);
    run(body, ends[0]);
  }
  EXPECT_GT(process_, 0);
  ::close(ends[0]);
  to_child_ = ends[1];
}

Forked::~Forked() {
  if (!ended_ && process_ > 0) {
    ::kill(process_, SIGKILL);
    wait();
  }
  ::close(to_child_);
}

void Forked::tell(const std::string& line) const {
  const std::string text = line + "\n";
  EXPECT_EQ(::write(to_child_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void Forked::send(int signal) const { EXPECT_EQ(::kill(process_, signal), 0); }

void Forked::wait_until_stopped() const {
  int status = 0;
  EXPECT_EQ(::waitpid(process_, &status, WUNTRACED), process_);
  EXPECT_TRUE(WIFSTOPPED(status));
}

int Forked::wait() {
  int status = 0;
  EXPECT_EQ(::waitpid(process_, &status, 0), process_);
  ended_ = true;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace muster::testing
