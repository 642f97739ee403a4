#include "muster/console/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/testing/temp_dir.h"

namespace muster::console {
namespace {

TEST(RunFiles, CountTheFilesOfACheckpointTogether) {
  const testing::TempDir folder;
  for (const auto& [name, bytes] :
       {std::pair("model.ckpt-200.index", 10), std::pair("model.ckpt-200.data-00000-of-00002", 20),
        std::pair("model.ckpt-200.data-00001-of-00002", 30), std::pair("model.ckpt-1000.index", 1),
        std::pair("muster.json", 7), std::pair("columns.index", 5), std::pair(".hidden", 4)}) {
    testing::write_bytes(folder / name, std::string(static_cast<std::size_t>(bytes), 'x'));
  }
  std::filesystem::create_directories(folder / "export" / "best" / "17" / "variables");
  testing::write_bytes(folder / "export" / "best" / "17" / "saved_model.pb", "1234");
  testing::write_bytes(folder / "export" / "best" / "17" / "variables" / "v.index", "12");
  std::filesystem::create_symlink("/etc", folder / "export" / "etc");
  std::filesystem::create_symlink("/etc/passwd", folder / "passwd");
  const RunFiles found = files_of_run(folder.path());
  ASSERT_EQ(found.checkpoints.size(), 2U);
  EXPECT_EQ(found.checkpoints[0].name, "model.ckpt-200");
  EXPECT_EQ(found.checkpoints[0].step, 200);
  EXPECT_EQ(found.checkpoints[0].bytes, 60U);
  EXPECT_GT(found.checkpoints[0].time, 1.6e9);
  EXPECT_EQ(found.checkpoints[1].step, 1000);
  ASSERT_EQ(found.exports.size(), 1U);
  EXPECT_EQ(found.exports[0].name, "export/best/17");
  EXPECT_EQ(found.exports[0].bytes, 6U);
  ASSERT_EQ(found.files.size(), 2U);
  EXPECT_EQ(found.files[0].name, "columns.index");
  EXPECT_EQ(found.files[1].name, "muster.json");
  EXPECT_FALSE(found.is_cut);
}

TEST(RunFiles, OfAFolderThatIsGoneAreNone) {
  EXPECT_TRUE(files_of_run("/nowhere/at/all").files.empty());
}

}  // namespace
}  // namespace muster::console
