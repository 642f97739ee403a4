#include "muster/data/checkpoint/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/checkpoint/checkpoint_state.h"
#include "muster/data/checkpoint/test_tensors_internal.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/message_of.h"
#include "muster/testing/small_disk.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::holds_only;
using testing::TempDir;
using testing::Variables;

void save(CheckpointStore& store, std::int64_t step, std::string_view state_json = "{}") {
  Variables variables(3, 8);
  variables.fill(static_cast<float>(step));
  store.save(step, variables.views(), state_json);
}

std::vector<std::int64_t> steps_of(const Path& model_dir) {
  std::vector<std::int64_t> steps;
  for (const Path& prefix : list_checkpoints(model_dir)) {
    steps.push_back(checkpoint_step(prefix).value());
  }
  return steps;
}

/// The warnings that were logged while this lives.
class Warnings {
 public:
  Warnings() {
    log::set_sink([this](log::Level level, std::string_view line) {
      if (level == log::Level::kWarning) text.append(line).append("\n");
    });
  }
  ~Warnings() { log::set_sink({}); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  std::string text;
};

TEST(CheckpointStore, PublishesIndexDataStateAndTheStateFile) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  save(store, 400, R"({"seed":7})");
  EXPECT_THAT(file_system_for(dir.path()).list(dir.path()),
              ElementsAre("checkpoint", "model.ckpt-400.data-00000-of-00001",
                          "model.ckpt-400.index", "model.ckpt-400.state.json"));
  const auto checkpoint = store.restore();
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->state_json, R"({"seed":7})");
  EXPECT_TRUE(holds_only(checkpoint->bundle, 400));
}

TEST(CheckpointStore, HasNothingToRestoreInANewFolder) {
  const TempDir dir;
  const CheckpointStore store(dir / "new/model");
  EXPECT_FALSE(store.latest());
  EXPECT_FALSE(store.restore());
}

TEST(CheckpointStore, KeepsTheNewest) {
  const TempDir dir;
  CheckpointStore store(dir.path(), {.keep_checkpoint_max = 2});
  for (int step = 1; step <= 5; ++step) save(store, step);
  EXPECT_THAT(steps_of(dir.path()), ElementsAre(4, 5));
  EXPECT_EQ(file_system_for(dir.path()).list(dir.path()).size(), 7u);
}

TEST(CheckpointStore, KeepsAllWhenTheMaximumIsZero) {
  const TempDir dir;
  CheckpointStore store(dir.path(), {.keep_checkpoint_max = 0});
  for (int step = 1; step <= 7; ++step) save(store, step);
  EXPECT_EQ(steps_of(dir.path()).size(), 7u);
}

TEST(CheckpointStore, DeletesDownToALoweredMaximum) {
  const TempDir dir;
  {
    CheckpointStore store(dir.path(), {.keep_checkpoint_max = 5});
    for (int step = 1; step <= 5; ++step) save(store, step);
  }
  CheckpointStore store(dir.path(), {.keep_checkpoint_max = 2});
  save(store, 6);
  EXPECT_THAT(steps_of(dir.path()), ElementsAre(5, 6));
}

TEST(CheckpointStore, KeepsOneInSoManyHoursForEverAlsoAcrossARestart) {
  const TempDir dir;
  double now = 1000;
  const CheckpointStoreOptions options{
      .keep_checkpoint_max = 1, .keep_checkpoint_every_n_hours = 2, .now = [&] { return now; }};
  for (int step = 1; step <= 7; ++step) {
    CheckpointStore store(dir.path(), options);  // a new process each time
    save(store, step);
    now += 3600;
  }
  // Saved at hours 0 to 6: the first ones after hours 2 and 4 stay.
  std::vector<std::string> indices;
  for (const Path& path : glob(dir / "*.index")) indices.push_back(path.filename());
  EXPECT_THAT(indices,
              ElementsAre("model.ckpt-4.index", "model.ckpt-6.index", "model.ckpt-7.index"));
  EXPECT_THAT(steps_of(dir.path()), ElementsAre(7));
}

TEST(CheckpointStore, NeverDeletesAPinnedCheckpoint) {
  const TempDir dir;
  CheckpointStore store(dir.path(), {.keep_checkpoint_max = 1});
  save(store, 1);
  {
    const CheckpointPin pin(dir / "model.ckpt-1");
    save(store, 2);
    EXPECT_THAT(steps_of(dir.path()), ElementsAre(1, 2));
    EXPECT_TRUE(holds_only(open_checkpoint(dir / "model.ckpt-1").bundle, 1));
  }
  save(store, 3);
  EXPECT_THAT(steps_of(dir.path()), ElementsAre(3));
  EXPECT_THROW(CheckpointPin(dir / "model.ckpt-1"), NotFound);
}

TEST(CheckpointStore, ReplacesAStepThatIsSavedAgain) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  save(store, 1);
  save(store, 2);
  Variables variables;
  variables.fill(77);
  store.save(1, variables.views());
  EXPECT_THAT(steps_of(dir.path()), ElementsAre(2, 1));
  EXPECT_TRUE(holds_only(store.restore()->bundle, 77));
  EXPECT_FALSE(file_exists(dir / "model.ckpt-1.state.json"));
}

TEST(CheckpointStore, FallsBackToTheNewestOlderOneThatIsWholeAndSaysWhy) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  for (int step = 1; step <= 4; ++step) save(store, step);
  testing::flip_byte(dir / "model.ckpt-4.data-00000-of-00001", 5);
  std::filesystem::remove(dir / "model.ckpt-3.data-00000-of-00001");
  const Warnings warnings;
  const auto checkpoint = store.restore();
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->bundle.prefix(), dir / "model.ckpt-2");
  EXPECT_TRUE(holds_only(checkpoint->bundle, 2));
  EXPECT_THAT(warnings.text, HasSubstr("model.ckpt-4 error=\"tensor 'layer_0': the checksum"));
  EXPECT_THAT(warnings.text, HasSubstr("falling back to another checkpoint path=" +
                                       (dir / "model.ckpt-2").string()));
}

TEST(CheckpointStore, RefusesToStartAfreshWhenNoCheckpointIsWhole) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  save(store, 1);
  testing::flip_byte(dir / "model.ckpt-1.index", 3);
  EXPECT_THROW(store.restore(), DataLoss);
}

TEST(CheckpointStore, FindsItsCheckpointsWithoutAStateFileAndSaysSo) {
  for (const char* text : {"", "nonsense {", "all_model_checkpoint_paths: \"model.ckpt-9\""}) {
    const TempDir dir;
    {
      CheckpointStore store(dir.path());
      for (const int step : {9, 10, 100}) save(store, step);
    }
    testing::flip_byte(dir / "model.ckpt-100.data-00000-of-00001", 5);
    testing::write_bytes(dir / "checkpoint", text);
    EXPECT_EQ(latest_checkpoint(dir.path()), dir / "model.ckpt-100");
    EXPECT_THAT(steps_of(dir.path()), ElementsAre(9, 10, 100));
    const Warnings warnings;
    const auto checkpoint = restore_latest(dir.path());
    ASSERT_TRUE(checkpoint);
    EXPECT_EQ(checkpoint->bundle.prefix(), dir / "model.ckpt-10");
    EXPECT_THAT(warnings.text, HasSubstr("the file 'checkpoint' is missing or names none"));
  }
}

TEST(CheckpointStore, GoesOnCountingWhatItFindsWithoutAStateFile) {
  const TempDir dir;
  {
    CheckpointStore store(dir.path(), {.keep_checkpoint_max = 3});
    for (int step = 1; step <= 3; ++step) save(store, step);
  }
  std::filesystem::remove(dir / "checkpoint");
  CheckpointStore store(dir.path(), {.keep_checkpoint_max = 3});
  save(store, 4);
  EXPECT_THAT(steps_of(dir.path()), ElementsAre(2, 3, 4));
}

TEST(CheckpointStore, GoesOnFromAnUnlistedCheckpointWhenNoListedOneIsWhole) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  save(store, 1);
  save(store, 2);
  write_checkpoint_state(dir.path(), {.model_checkpoint_path = "model.ckpt-2",
                                      .all_model_checkpoint_paths = {"model.ckpt-2"}});
  testing::flip_byte(dir / "model.ckpt-2.index", 3);
  const auto checkpoint = restore_latest(dir.path());
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->bundle.prefix(), dir / "model.ckpt-1");
}

TEST(CheckpointStore, TakesAStateThatIsNotTheSavedOneForDamage) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  save(store, 1, R"({"step": 1})");
  save(store, 2, R"({"step": 2})");
  const Path state = dir / "model.ckpt-2.state.json";
  for (const char* text : {"", R"({"step": 1})", R"({"step": 2)"}) {
    testing::write_bytes(state, text);
    EXPECT_EQ(restore_latest(dir.path())->bundle.prefix(), dir / "model.ckpt-1") << text;
  }
  std::filesystem::remove(state);
  EXPECT_EQ(restore_latest(dir.path())->bundle.prefix(), dir / "model.ckpt-1");
  // Its tensors are whole: a reader that needs nothing else has them.
  EXPECT_TRUE(holds_only(open_checkpoint(dir / "model.ckpt-2").bundle, 2));
}

TEST(CheckpointStore, FallsBackWhereTheCallerFindsDamage) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  save(store, 1);
  save(store, 2);
  const auto checkpoint = restore_latest(dir.path(), [&](const OpenCheckpoint& one) {
    if (one.bundle.prefix() == dir / "model.ckpt-2") throw DataLoss("no");
  });
  EXPECT_EQ(checkpoint->bundle.prefix(), dir / "model.ckpt-1");
}

TEST(CheckpointStore, FallsBackWhenAFolderOrAFifoStandsInThePlaceOfAFile) {
  for (const char* ending : {".data-00000-of-00001", ".index", ".state.json"}) {
    for (const bool is_fifo : {false, true}) {
      const TempDir dir;
      CheckpointStore store(dir.path());
      save(store, 1);
      save(store, 2);
      const Path file = (dir / "model.ckpt-2").string() + ending;
      std::filesystem::remove(file);
      ASSERT_EQ(is_fifo ? ::mkfifo(file.c_str(), 0600) : ::mkdir(file.c_str(), 0700), 0);
      const auto checkpoint = restore_latest(dir.path());
      ASSERT_TRUE(checkpoint) << file;
      EXPECT_EQ(checkpoint->bundle.prefix(), dir / "model.ckpt-1") << file;
    }
  }
}

TEST(CheckpointStore, DoesNotMakeAFolderAgainThatWasMovedAway) {
  const TempDir dir;
  const Path folder = dir / "job";
  CheckpointStore store(folder);
  save(store, 1);
  std::filesystem::rename(folder, dir / "aside");
  EXPECT_THAT(testing::message_of([&] { save(store, 2); }), HasSubstr("move that back"));
  EXPECT_FALSE(std::filesystem::exists(folder));
  std::filesystem::create_directory(folder);
  EXPECT_THROW(save(store, 2), FailedPrecondition);
  std::filesystem::remove(folder);
  std::filesystem::rename(dir / "aside", folder);
  save(store, 2);
  EXPECT_THAT(steps_of(folder), ElementsAre(1, 2));
}

TEST(CheckpointStore, FollowsAStateFileThatWasSetBack) {
  const TempDir dir;
  {
    CheckpointStore store(dir.path(), {.keep_checkpoint_max = 3});
    for (int step = 1; step <= 3; ++step) save(store, step);
  }
  auto state = read_checkpoint_state(dir.path()).value();
  state.model_checkpoint_path = "model.ckpt-2";
  write_checkpoint_state(dir.path(), state);
  EXPECT_EQ(latest_checkpoint(dir.path()), dir / "model.ckpt-2");
  CheckpointStore store(dir.path(), {.keep_checkpoint_max = 3});
  save(store, 5);
  EXPECT_THAT(steps_of(dir.path()), ElementsAre(1, 2, 5));
}

TEST(CheckpointStore, CleansUpAfterAWriterThatCrashed) {
  const TempDir dir;
  {
    CheckpointStore store(dir.path());
    save(store, 1);
  }
  std::filesystem::create_directory(dir / ".model.ckpt-2.tmp-123-0");
  testing::write_bytes(dir / ".model.ckpt-2.tmp-123-0/model.ckpt-2.data-00000-of-00001", "torn");
  testing::write_bytes(dir / ".checkpoint.tmp-123-0", "torn");
  testing::write_bytes(dir / "model.ckpt-3.data-00000-of-00001", "published without its index");
  testing::write_bytes(dir / "notes.txt", "not ours");
  const CheckpointStore store(dir.path());
  EXPECT_THAT(file_system_for(dir.path()).list(dir.path()),
              ElementsAre("checkpoint", "model.ckpt-1.data-00000-of-00001", "model.ckpt-1.index",
                          "model.ckpt-1.state.json", "notes.txt"));
}

TEST(CheckpointStore, KeepsTheOldOneAndLeavesNoDebrisWhenTheDiskIsFull) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  save(store, 1);
  const auto before = file_system_for(dir.path()).list(dir.path());
  Variables variables(4, 10'000);
  {
    const testing::SmallDisk disk(100'000);
    EXPECT_THROW(store.save(2, variables.views()), ResourceExhausted);
  }
  EXPECT_EQ(file_system_for(dir.path()).list(dir.path()), before);
  EXPECT_TRUE(holds_only(store.restore()->bundle, 1));
  store.save(2, variables.views());
  EXPECT_THAT(steps_of(dir.path()), ElementsAre(1, 2));
}

TEST(CheckpointStore, TakesTheNewCheckpointBackWhenTheStateFileCannotBeWritten) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  save(store, 1);
  const auto before = file_system_for(dir.path()).list(dir.path());
  // A folder instead of the state file makes its replacement fail.
  std::filesystem::rename(dir / "checkpoint", dir / "aside");
  std::filesystem::create_directories(dir / "checkpoint/blocked");
  EXPECT_THROW(save(store, 2), Error);
  std::filesystem::remove_all(dir / "checkpoint");
  std::filesystem::rename(dir / "aside", dir / "checkpoint");
  EXPECT_EQ(file_system_for(dir.path()).list(dir.path()), before);
}

// Saves for ever, telling through the pipe once the first save is done.
[[noreturn]] void save_until_killed(const Path& model_dir, int pipe) {
  log::set_level(log::Level::kOff);
  try {
    CheckpointStore store(model_dir, {.keep_checkpoint_max = 2});
    const auto latest = store.latest();
    std::int64_t step = latest ? checkpoint_step(*latest).value() : 0;
    Variables variables;
    for (bool first = true;; first = false) {
      ++step;
      variables.fill(static_cast<float>(step));
      store.save(step, variables.views(), std::to_string(step));
      if (first && ::write(pipe, "x", 1) != 1) ::_exit(3);
    }
  } catch (...) {
    ::_exit(4);
  }
}

TEST(CheckpointStore, HasAWholeLatestCheckpointAfterAKillAtAnyMoment) {
  const TempDir dir;
  Random random(11);
  for (int round = 0; round < 25; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) save_until_killed(dir.path(), pipe[1]);
    ::close(pipe[1]);
    char ready = 0;
    ASSERT_EQ(::read(pipe[0], &ready, 1), 1);
    ::close(pipe[0]);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(20'000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto latest = latest_checkpoint(dir.path());
    ASSERT_TRUE(latest);
    const OpenCheckpoint checkpoint = open_checkpoint(*latest);
    const std::int64_t step = checkpoint_step(*latest).value();
    EXPECT_TRUE(holds_only(checkpoint.bundle, static_cast<float>(step)));
    EXPECT_EQ(checkpoint.state_json, std::to_string(step));
  }
}

TEST(ResolveCheckpoint, TakesAPrefixAnIndexAModelDirAndASavedModel) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  save(store, 3);
  EXPECT_EQ(resolve_checkpoint(dir / "model.ckpt-3"), dir / "model.ckpt-3");
  EXPECT_EQ(resolve_checkpoint(dir / "model.ckpt-3.index"), dir / "model.ckpt-3");
  EXPECT_EQ(resolve_checkpoint(dir.path()), dir / "model.ckpt-3");
  EXPECT_THROW(resolve_checkpoint(dir / "elsewhere"), NotFound);
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Path model = data / "tensorflow/half_plus_two/00000123";
  EXPECT_EQ(resolve_checkpoint(model), model / "variables/variables");
  EXPECT_EQ(resolve_checkpoint(model / "variables"), model / "variables/variables");
}

TEST(CheckpointStep, IsTheNumberBehindTheLastDash) {
  EXPECT_EQ(checkpoint_step("a-1/model.ckpt-400"), 400);
  EXPECT_EQ(checkpoint_step("variables"), std::nullopt);
  EXPECT_EQ(checkpoint_step("model-x"), std::nullopt);
}

}  // namespace
}  // namespace muster
