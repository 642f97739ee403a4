#include "muster/data/checkpoint/async_checkpointer.h"

#include <gtest/gtest.h>

#include <future>

#include "muster/base/log.h"
#include "muster/data/checkpoint/test_tensors_internal.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using testing::holds_only;
using testing::TempDir;
using testing::Variables;

TEST(AsyncCheckpointer, SavesWhatTheVariablesWereAtTheCall) {
  const TempDir dir;
  // Several chunks a tensor, so that copying is shared between the threads.
  Variables variables(3, 3'000'000);
  AsyncCheckpointer checkpointer{CheckpointStore(dir.path(), {.keep_checkpoint_max = 0})};
  for (int step = 1; step <= 4; ++step) {
    variables.fill(static_cast<float>(step));
    checkpointer.save(step, variables.views(), std::to_string(step));
    checkpointer.wait_until_copied();
    variables.fill(-1);
  }
  checkpointer.flush();
  EXPECT_EQ(checkpointer.status().saved, 4);
  for (int step = 1; step <= 4; ++step) {
    const auto checkpoint = open_checkpoint(dir / ("model.ckpt-" + std::to_string(step)));
    EXPECT_TRUE(holds_only(checkpoint.bundle, static_cast<float>(step)));
    EXPECT_EQ(checkpoint.state_json, std::to_string(step));
  }
}

TEST(AsyncCheckpointer, CopiesNamesStringsAndPartsToo) {
  const TempDir dir;
  AsyncCheckpointer checkpointer{CheckpointStore(dir.path())};
  {
    const std::string name = "a name that is too long to be kept inside a string";
    const std::string word = "a word that is too long to be kept inside a string";
    const std::vector<std::string_view> words{word, ""};
    const std::vector<float> half{1, 2};
    const std::vector<TensorView> tensors{
        {.name = name, .type = DataType::kString, .shape = {2}, .strings = words},
        {.name = "w",
         .shape = {2},
         .bytes = std::as_bytes(std::span(half)),
         .slice = TensorSlice{{4}, {0}}},
        {.name = "w",
         .shape = {2},
         .bytes = std::as_bytes(std::span(half)),
         .slice = TensorSlice{{4}, {2}}}};
    checkpointer.save(1, tensors);
    checkpointer.wait_until_copied();
  }
  checkpointer.flush();
  const auto checkpoint = open_checkpoint(dir / "model.ckpt-1");
  EXPECT_EQ(checkpoint.bundle.read_strings("a name that is too long to be kept inside a string")[0],
            "a word that is too long to be kept inside a string");
  EXPECT_EQ(checkpoint.bundle.read("w").bytes.size(), 16u);
}

TEST(AsyncCheckpointer, WritesTheLastSaveBeforeItGoes) {
  const TempDir dir;
  Variables variables;
  variables.fill(5);
  {
    AsyncCheckpointer checkpointer{CheckpointStore(dir.path())};
    checkpointer.reserve(1 << 20);
    checkpointer.save(5, variables.views());
  }
  EXPECT_TRUE(holds_only(restore_latest(dir.path())->bundle, 5));
}

TEST(AsyncCheckpointer, DoesInTheBackgroundWhatMustComeBeforeTheCheckpoint) {
  const TempDir dir;
  Variables variables;
  AsyncCheckpointer checkpointer{CheckpointStore(dir.path())};
  std::promise<void> go_on;
  bool came_first = false;
  checkpointer.save(1, variables.views(), {}, [&] {
    go_on.get_future().wait();
    came_first = !file_exists(dir / "model.ckpt-1.index");
  });
  checkpointer.wait_until_copied();  // Does not wait for it.
  go_on.set_value();
  checkpointer.flush();
  EXPECT_TRUE(came_first);
  EXPECT_TRUE(file_exists(dir / "model.ckpt-1.index"));
}

TEST(AsyncCheckpointer, ReportsAFailureAndGoesOn) {
  const TempDir dir;
  Variables variables;
  AsyncCheckpointer checkpointer{CheckpointStore(dir / "model")};
  std::string logged;
  log::set_sink([&](log::Level level, std::string_view line) {
    if (level == log::Level::kError) logged = line;
  });
  std::filesystem::rename(dir / "model", dir / "aside");
  testing::write_bytes(dir / "model", "a file instead of the folder");
  checkpointer.save(1, variables.views());
  checkpointer.flush();
  EXPECT_EQ(checkpointer.status().failed, 1);
  ASSERT_TRUE(checkpointer.status().last_failure);
  std::filesystem::remove(dir / "model");
  // The folder itself: a new one would be a run without a beginning.
  std::filesystem::rename(dir / "aside", dir / "model");
  checkpointer.save(2, variables.views());
  checkpointer.flush();
  log::set_sink({});
  EXPECT_NE(logged.find("training goes on step=1"), std::string::npos) << logged;
  EXPECT_EQ(checkpointer.status().saved, 1);
  EXPECT_FALSE(checkpointer.status().last_failure);
  EXPECT_EQ(checkpointer.status().last_saved, dir / "model/model.ckpt-2");
}

}  // namespace
}  // namespace muster
