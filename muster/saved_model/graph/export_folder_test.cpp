#include "muster/saved_model/graph/export_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "muster/base/error.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/temp_dir.h"

namespace muster::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TempDir;

void make_export(const Path& dir) {
  MetaGraph meta;
  meta.tags = {std::string(kServeTag)};
  SavedModel model;
  model.meta_graphs.push_back(meta);
  write_saved_model(dir, model);
}

TEST(ExportFolder, ListsNumbersOfAnyLengthByTheirValue) {
  const TempDir folder;
  for (const char* name : {"10", "9", "0011", "123456789012345678901234567890", "1700000000"}) {
    make_export(folder / name);
  }
  EXPECT_THAT(exports_in(folder.path()),
              ElementsAre(folder / "9", folder / "10", folder / "0011", folder / "1700000000",
                          folder / "123456789012345678901234567890"));
}

TEST(ExportFolder, PassesOverWhatIsNoExport) {
  const TempDir folder;
  make_export(folder / "7a");
  make_export(folder / "temp-7-1");
  std::filesystem::create_directory(folder / "8");
  testing::write_bytes(folder / "9", "a file");
  EXPECT_THAT(exports_in(folder.path()), IsEmpty());
  EXPECT_THAT(exports_in(folder / "none"), IsEmpty());
}

TEST(ExportFolder, TheNextIsLargerThanAllThatAreThere) {
  const TempDir folder;
  const Path base = folder / "export/best";
  const Path first = write_numbered_export(base, make_export);
  const auto now = std::stoll(first.filename().string());
  EXPECT_GT(now, 1'700'000'000);
  // Folders of a clock that went ahead, and of a number that no server counts to.
  std::filesystem::create_directory(base / std::to_string(now + 1000));
  std::filesystem::create_directory(base / "99999999999999999999");
  const Path second = write_numbered_export(base, make_export);
  EXPECT_EQ(second, base / std::to_string(now + 1001));
  EXPECT_EQ(latest_export(base), second);
  EXPECT_EQ(latest_export(folder / "none"), Path());
}

TEST(ExportFolder, ANumberThatAnotherTakesInBetweenGivesWayToTheNext) {
  const TempDir folder;
  int taken = 0;
  const Path written = write_numbered_export(folder.path(), [&](const Path& dir) {
    if (++taken == 1) make_export(dir);
    make_export(dir);
  });
  EXPECT_EQ(taken, 2);
  EXPECT_THAT(exports_in(folder.path()), ElementsAre(::testing::_, written));
  EXPECT_THROW(write_numbered_export(folder.path(),
                                     [](const Path&) { throw AlreadyExists("something else"); }),
               AlreadyExists);
}

TEST(ExportFolder, RemovesWhatACrashLeftAndNothingElse) {
  const TempDir folder;
  make_export(folder / "5");
  make_export(folder / "temp-6-77");
  testing::write_bytes(folder / "notes.txt", "mine");
  remove_unfinished_exports(folder.path());
  EXPECT_TRUE(is_saved_model(folder / "5"));
  EXPECT_TRUE(std::filesystem::exists(folder / "notes.txt"));
  EXPECT_FALSE(std::filesystem::exists(folder / "temp-6-77"));
}

}  // namespace
}  // namespace muster::graph
