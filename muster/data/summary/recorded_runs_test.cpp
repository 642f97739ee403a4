#include "muster/data/summary/recorded_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RecordedRuns, ComeOldestFirstAndOnlyObjects) {
  const testing::TempDir folder;
  EXPECT_THAT(recorded_runs(folder.path()), IsEmpty());
  testing::write_bytes(folder / kNotesFile, R"({"runs": [{"seed": 1}, 7, {"seed": 2}]})");
  EXPECT_THAT(recorded_runs(folder.path()), ElementsAre(R"({"seed":1})", R"({"seed":2})"));
}

TEST(RecordedRuns, ADamagedFileCountsAsAbsent) {
  const testing::TempDir folder;
  testing::write_bytes(folder / kNotesFile, R"({"runs": [{"seed")");
  EXPECT_THAT(recorded_runs(folder.path()), IsEmpty());
  testing::write_bytes(folder / kNotesFile, R"({"runs": 3})");
  EXPECT_THAT(recorded_runs(folder.path()), IsEmpty());
}

TEST(RecordedRuns, ALinkThatLeadsOutOfTheFolderIsRefused) {
  const testing::TempDir folder;
  const testing::TempDir other;
  testing::write_bytes(other / "secret", R"({"runs": [{"seed": 1}]})");
  std::filesystem::create_symlink(other / "secret", folder / kNotesFile);
  EXPECT_THROW(recorded_runs(folder.path()), InvalidArgument);
}

}  // namespace
}  // namespace muster
