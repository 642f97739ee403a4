#include "muster/orchestration/process/warm_fork.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "muster/base/open_file.h"
#include "muster/base/program.h"
#include "muster/testing/eventually.h"
#include "muster/testing/temp_dir.h"

namespace muster::process {
namespace {

// Body of this test program as a fork of a warm program: see the end of this file.
int act_as_fork(int argc, char** argv) {
  std::printf("%s %s %d", argc > 1 ? argv[1] : "none", std::getenv("GIVEN"), std::getchar());
  return 3;
}

TEST(WarmFork, HasArgumentsEnvironmentOutputsAndNoInput) {
  const testing::TempDir dir;
  ::setenv("GIVEN", "before", 1);
  WarmProgram program(std::filesystem::read_symlink("/proc/self/exe"));
  const OpenFile out(dir / "out", O_WRONLY | O_CREAT | O_TRUNC);
  const pid_t fork = start_fork(
      program, {.arguments = {"word"}, .environment = {"GIVEN=over it"}, .out = out.get()});
  std::optional<EndOfProcess> end;
  ASSERT_TRUE(testing::eventually([&] { return (end = reap_fork(program, fork)).has_value(); }));
  EXPECT_EQ(end->status, 3);
  EXPECT_FALSE(end->killed);
  EXPECT_EQ(testing::read_bytes(dir / "out"), "word over it -1");
  ::unsetenv("GIVEN");
}

// Before GoogleTest's main: this process is to be the warm one.
[[maybe_unused]] const bool has_been_fork = [] {
  if (std::getenv("MUSTER_WARM_SOCKET") == nullptr) return false;
  static std::string name = "warm";
  std::vector<char*> argv{name.data(), nullptr};
  const int status = run_main(1, argv.data(), act_as_fork);
  std::fflush(stdout);
  ::_exit(status);
}();

}  // namespace
}  // namespace muster::process
