#include "muster/data/checkpoint/checkpoint_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "muster/base/log.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;

TEST(CheckpointState, IsTheTextThatTensorFlowWrites) {
  const TempDir dir;
  write_checkpoint_state(dir.path(),
                         {"model.ckpt-20", {"model.ckpt-10", "model.ckpt-20"}, {1.5, 2.25}, 1.0});
  EXPECT_EQ(testing::read_bytes(dir / "checkpoint"),
            "model_checkpoint_path: \"model.ckpt-20\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-10\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-20\"\n"
            "all_model_checkpoint_timestamps: 1.5\n"
            "all_model_checkpoint_timestamps: 2.25\n"
            "last_preserved_timestamp: 1\n");
}

TEST(CheckpointState, KeepsTimestampsToTheBit) {
  const TempDir dir;
  const double now = 1794708737.6243777;
  write_checkpoint_state(dir.path(), {"m-1", {"m-1"}, {now}, now});
  const auto state = read_checkpoint_state(dir.path());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->all_model_checkpoint_timestamps.at(0), now);
  EXPECT_EQ(state->last_preserved_timestamp, now);
}

TEST(CheckpointState, ReadsTheEstimatorsFile) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto state = read_checkpoint_state(data / "tensorflow/mnist_checkpoint");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->model_checkpoint_path, "model.ckpt-46900");
  EXPECT_THAT(state->all_model_checkpoint_paths, ElementsAre("model.ckpt-0", "model.ckpt-46900"));
  EXPECT_FALSE(state->last_preserved_timestamp);
}

TEST(CheckpointState, IsAbsentWhenThereIsNoFile) {
  const TempDir dir;
  EXPECT_FALSE(read_checkpoint_state(dir.path()));
}

TEST(CheckpointState, IsAbsentAfterAWarningWhenItCannotBeParsed) {
  const TempDir dir;
  testing::write_bytes(dir / "checkpoint", "model_checkpoint_path: \"m-1\"\nnonsense {\n");
  std::string warning;
  log::set_sink([&](log::Level level, std::string_view line) {
    if (level == log::Level::kWarning) warning = line;
  });
  EXPECT_FALSE(read_checkpoint_state(dir.path()));
  log::set_sink({});
  EXPECT_THAT(warning, HasSubstr("line 2"));
  EXPECT_THAT(warning, HasSubstr((dir / "checkpoint").string()));
}

TEST(CheckpointState, IsNoLinkOutOfTheFolderAndNoFifo) {
  const TempDir dir, elsewhere;
  write_checkpoint_state(elsewhere.path(), {"m-1", {"m-1"}});
  std::filesystem::create_symlink(elsewhere / "checkpoint", dir / "checkpoint");
  EXPECT_FALSE(read_checkpoint_state(dir.path()));
  std::filesystem::remove(dir / "checkpoint");
  ASSERT_EQ(::mkfifo((dir / "checkpoint").c_str(), 0600), 0);
  EXPECT_FALSE(read_checkpoint_state(dir.path()));
}

}  // namespace
}  // namespace muster
