#include "muster/base/warm_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/open_file.h"
#include "muster/base/program.h"
#include "muster/testing/eventually.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Behaviour of this test program when it is started as a warm program: see the end of this file.
int act(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "exit") return std::atoi(argv[2]);
  if (what == "abort") std::abort();
  if (what == "wait") ::pause();
  std::printf("%s %s %s", std::filesystem::current_path().c_str(), std::getenv("GIVEN"),
              std::getenv("HOME") == nullptr ? "alone" : "with more");
  for (const std::string& word : command_line()) std::printf(" [%s]", word.c_str());
  return 0;
}

// Status file of the system; empty for a process that is gone.
std::string read_status(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  return {std::istreambuf_iterator<char>(file), {}};
}

class Warm : public ::testing::Test {
 protected:
  pid_t start(std::vector<std::string> arguments) {
    const OpenFile out(folder_ / "out", O_WRONLY | O_CREAT | O_TRUNC);
    return program_.start({.arguments = std::move(arguments),
                           .environment = {"GIVEN=a=b"},
                           .working_directory = folder_.path(),
                           .out = out.get()});
  }

  const testing::TempDir folder_;
  WarmProgram program_{std::filesystem::read_symlink("/proc/self/exe")};
};

TEST_F(Warm, StartsForksWithTheirOwnArgumentsEnvironmentAndFolder) {
  for (const std::string word : {"one", "two words"}) {
    const int status = program_.wait(start({"say", word}));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    const std::string said = testing::read_bytes(folder_ / "out");
    EXPECT_THAT(said, HasSubstr(folder_.path().filename().string() + " a=b alone ["));
    EXPECT_THAT(said, HasSubstr("] [say] [" + word + "]"));
  }
}

TEST_F(Warm, TellsHowEachForkEnded) {
  const pid_t waits = start({"wait"});
  const pid_t fails = start({"exit", "7"});
  const pid_t aborts = start({"abort"});
  EXPECT_EQ(WEXITSTATUS(program_.wait(fails)), 7);
  EXPECT_EQ(WTERMSIG(program_.wait(aborts)), SIGABRT);
  EXPECT_EQ(program_.ended(waits), std::nullopt);
  ::kill(waits, SIGTERM);
  EXPECT_EQ(WTERMSIG(program_.wait(waits)), SIGTERM);
}

TEST_F(Warm, EndsAForkThatTakesTooLong) {
  const pid_t fork = program_.start({.arguments = {"wait"},
                                     .environment = {},
                                     .working_directory = folder_.path(),
                                     .seconds = 1});
  EXPECT_EQ(WTERMSIG(program_.wait(fork)), SIGALRM);
}

TEST(WarmProgram, ThatCannotBeWarmIsNamed) {
  WarmProgram program("/bin/true");
  try {
    program.start({.working_directory = "/"});
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/bin/true"));
  }
}

TEST(WarmProgram, ThatIsNoProgramSaysWhatTheKernelSays) {
  const testing::TempDir folder;
  try {
    const WarmProgram program(folder.path());
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("starting " + folder.path().string() + ": Permission denied"));
  }
  EXPECT_THROW(WarmProgram(folder / "none"), NotFound);
}

TEST(WarmProgram, ThatHasEndedBeforeItIsAskedIsNamed) {
  WarmProgram program("/bin/true");
  // Only looks: its end is still to be waited for.
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
  try {
    program.start({.working_directory = "/"});
    FAIL() << "started";
  } catch (const Unavailable& error) {
    EXPECT_THAT(error.what(), HasSubstr("/bin/true"));
    EXPECT_THAT(error.what(), HasSubstr("has no run_main"));
  }
}

TEST(WarmProgram, ThatDoesNotAnswerIsNamedAndEnds) {
  const testing::TempDir folder;
  // Takes no notice of the socket.
  testing::write_bytes(folder / "deaf",
                       "#!/bin/sh\necho $$ > \"$0.new\"; mv \"$0.new\" \"$0.pid\"\n"
                       "exec sleep 1000\n");
  std::filesystem::permissions(folder / "deaf", std::filesystem::perms::owner_all);
  try {
    WarmProgram program(folder / "deaf");
    EXPECT_TRUE(testing::eventually([&] { return file_exists(folder / "deaf.pid"); }));
    program.start({.working_directory = "/", .limit = std::chrono::milliseconds(300)});
    FAIL() << "started";
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("deaf has not begun a fork in 0.3 s"));
  }
  EXPECT_NE(::kill(std::stoi(testing::read_bytes(folder / "deaf.pid")), 0), 0);
}

TEST(WarmProgram, LeavesItsForksAlone) {
  const testing::TempDir folder;
  pid_t fork = 0;
  {
    WarmProgram program(std::filesystem::read_symlink("/proc/self/exe"));
    fork = program.start({.arguments = {"wait"}, .working_directory = folder.path()});
  }
  EXPECT_EQ(::kill(fork, 0), 0);
  ::kill(fork, SIGKILL);
}

TEST(WarmProgram, EndsTheForksThatAreToEndWithIt) {
  const testing::TempDir folder;
  pid_t fork = 0;
  {
    WarmProgram program(std::filesystem::read_symlink("/proc/self/exe"));
    fork = program.start(
        {.arguments = {"wait"}, .working_directory = folder.path(), .end_signal = SIGTERM});
    EXPECT_EQ(program.ended(fork), std::nullopt);
  }
  // The process that adopted it may not have waited for it.
  EXPECT_TRUE(testing::eventually([&] {
    const std::string status = read_status(fork);
    return status.empty() || status.find("State:\tZ") != status.npos;
  }));
}

TEST(WarmProgram, HasAProcessGroupOfItsOwnWhereAsked) {
  const testing::TempDir folder;
  WarmProgram program(std::filesystem::read_symlink("/proc/self/exe"), {.own_group = true});
  const pid_t fork = program.start({.arguments = {"wait"}, .working_directory = folder.path()});
  EXPECT_NE(::getpgid(fork), ::getpgrp());
  EXPECT_NE(::getpgid(fork), fork);
  ::kill(fork, SIGKILL);
  program.wait(fork);
}

// Before GoogleTest's main: this process is to be the warm one.
[[maybe_unused]] const bool is_over = [] {
  if (std::getenv("MUSTER_WARM_SOCKET") == nullptr) return true;
  static std::string name = "warm";
  std::vector<char*> argv{name.data(), nullptr};
  const int status = run_main(1, argv.data(), act);
  std::fflush(stdout);
  ::_exit(status);
}();

}  // namespace
}  // namespace muster
