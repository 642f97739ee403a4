// What shells and man know of the commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string complete_in_bash(const std::string& line) {
  const std::string script =
      "source <(" MUSTER_PROGRAM " completion bash); COMP_WORDS=(" + line +
      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _muster; printf '%s\\n' \"${COMPREPLY[@]}\"";
  return testing::run_program("/bin/bash", {"-c", script}).out;
}

TEST(Completion, KnowsCommandsOfCommands) {
  EXPECT_EQ(complete_in_bash("muster rec"), "records\n");
  EXPECT_EQ(complete_in_bash("muster records ver"), "verify\n");
}

TEST(Completion, KnowsTheFlagsOfACommand) {
  EXPECT_THAT(complete_in_bash("muster records write csv --hea"), HasSubstr("--header"));
  EXPECT_THAT(complete_in_bash("muster records show --li"), HasSubstr("--limit"));
}

TEST(ManualPages, AreOnePerCommandAndNameItsFlags) {
  const testing::TempDir folder;
  const auto done =
      testing::run_program(MUSTER_PROGRAM, {"man", "--output", folder.path().string()});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(testing::read_bytes(folder / "muster-records-show.1"), HasSubstr(".B \\-\\-limit"));
  EXPECT_THAT(testing::read_bytes(folder / "muster.1"), HasSubstr("muster\\-records(1)"));
}

}  // namespace
}  // namespace muster
