#include "muster/base/git_state.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using testing::TempDir;
using testing::write_bytes;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";
const std::string kOther = "89abcdef0123456789abcdef0123456789abcdef";

// The files that git itself would have written.
class GitStateOf : public ::testing::Test {
 protected:
  GitStateOf() { write(".git/HEAD", "ref: refs/heads/topic/one\n"); }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_bytes(folder_ / name, text);
  }

  TempDir folder_;
};

TEST_F(GitStateOf, FindsBranchAndCommitFromAFolderInside) {
  write(".git/refs/heads/topic/one", kCommit + "\n");
  std::filesystem::create_directories(folder_ / "build/bin");
  EXPECT_EQ(git_state_of(folder_ / "build/bin"),
            (GitState{.repository = folder_.path(), .commit = kCommit, .branch = "topic/one"}));
}

TEST_F(GitStateOf, FindsPackedBranches) {
  write(".git/packed-refs", "# pack-refs with: peeled\n" + kOther + " refs/heads/topic\n" +
                                kCommit + " refs/heads/topic/one\n^" + kOther + "\n");
  EXPECT_EQ(git_state_of(folder_.path())->commit, kCommit);
}

TEST_F(GitStateOf, KnowsACommitWithoutABranch) {
  write(".git/HEAD", kOther + "\n");
  EXPECT_EQ(git_state_of(folder_.path()),
            (GitState{.repository = folder_.path(), .commit = kOther}));
}

TEST_F(GitStateOf, FollowsAWorktreeToItsRepository) {
  write(".git/refs/heads/topic/one", kCommit + "\n");
  write(".git/worktrees/w/HEAD", "ref: refs/heads/topic/one\n");
  write(".git/worktrees/w/commondir", "../..\n");
  write("w/.git", "gitdir: " + (folder_ / ".git/worktrees/w").string() + "\n");
  EXPECT_EQ(git_state_of(folder_ / "w"),
            (GitState{.repository = folder_ / "w", .commit = kCommit, .branch = "topic/one"}));
}

TEST_F(GitStateOf, TakesWhatIsDamagedForAbsent) {
  EXPECT_EQ(git_state_of(folder_.path())->commit, "");
  write(".git/refs/heads/topic/one", "no commit\n");
  EXPECT_EQ(git_state_of(folder_.path())->commit, "");
  std::filesystem::remove(folder_ / ".git/HEAD");
  EXPECT_EQ(git_state_of(folder_.path()), std::nullopt);
}

}  // namespace
}  // namespace muster
