// Shell completion and man pages of the commands.
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

TEST(Help, IsACommandToo) {
  const auto help = [](const std::vector<std::string>& words) {
    const auto outcome = testing::run_program(MUSTER_PROGRAM, words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(help({"help"}), help({"--help"}));
  EXPECT_EQ(help({"help", "records", "write"}), help({"records", "write", "--help"}));
  const auto wrong = testing::run_program(MUSTER_PROGRAM, {"help", "records", "wriet"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("records has no command wriet; did you mean write?"));
}

TEST(New, RefusesNamesOfTargetsThatAreThere) {
  const testing::TempDir folder;
  for (const char* name :
       {"torch", "c10", "yaml-cpp", "edit_cache", "rebuild_cache", "preinstall"}) {
    const auto outcome =
        testing::run_program("/bin/sh", {"-c", "cd \"$1\" && exec \"$2\" new \"$3\"", "sh",
                                         folder.path().string(), MUSTER_PROGRAM, name});
    EXPECT_EQ(outcome.status, 2) << name;
    EXPECT_THAT(outcome.err, HasSubstr("C++ or CMake has it already"));
  }
}

// One rule for all commands that print data for programs.
TEST(Flags, ForJsonAreTheSameEverywhere) {
  const std::string all = testing::run_program(MUSTER_PROGRAM, {"--help-all"}).out;
  EXPECT_THAT(all, ::testing::Not(HasSubstr("--format")));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"jobs", "list"},
                                                {"jobs", "describe"},
                                                {"models", "list"},
                                                {"models", "describe"},
                                                {"versions", "list"},
                                                {"versions", "describe"},
                                                {"runs", "list"},
                                                {"load"},
                                                {"predict"},
                                                {"batch-predict"},
                                                {"tune", "show"},
                                                {"checkpoint", "show"}}) {
    std::vector<std::string> help = words;
    help.emplace_back("--help");
    EXPECT_THAT(testing::run_program(MUSTER_PROGRAM, help).out, HasSubstr("  --json "))
        << words.front() << " " << words.back();
  }
}

TEST(Models, AreListedAndDescribedAsJson) {
  const testing::TempDir folder;
  const auto models = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--models-dir", folder / "models"});
    const auto outcome = testing::run_program(MUSTER_PROGRAM, words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  models({"models", "create", "census", "--description", "a \"b\""});
  EXPECT_THAT(models({"models", "list", "--json"}),
              ::testing::StartsWith(R"({"name":"models/census",)"));
  EXPECT_THAT(models({"models", "describe", "census", "--json"}),
              HasSubstr(R"("description":"a \"b\""})"));
  EXPECT_EQ(models({"versions", "list", "--model", "census", "--json"}), "");
}

}  // namespace
}  // namespace muster
