#include "muster/train/hooks/stop_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"
#include "muster/data/checkpoint/checkpoint_state.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using testing::FakeSession;
using ::testing::HasSubstr;

/// Makes a folder look as with a checkpoint of this step, to those who only look for it.
void put_checkpoint(const Path& model_dir, std::int64_t step) {
  const std::string prefix = fmt::format("model.ckpt-{}", step);
  testing::write_bytes(model_dir / (prefix + ".index"), "");
  testing::write_bytes(model_dir / (prefix + ".data-00000-of-00001"), "");
  write_checkpoint_state(model_dir,
                         {.model_checkpoint_path = prefix, .all_model_checkpoint_paths = {prefix}});
}

TEST(StopAtCheckpointStepHook, TheChiefStopsAtTheStep) {
  FakeSession session;
  StopAtCheckpointStepHook hook({.last_step = 3});
  session.run(hook, 2);
  EXPECT_FALSE(session.stop_requested());
  session.run(hook);
  EXPECT_TRUE(session.stop_requested());
}

TEST(StopAtCheckpointStepHook, AWorkerStopsWhenTheCheckpointIsThere) {
  FakeSession session;
  session.mutable_config().cluster.task.is_chief = false;
  put_checkpoint(session.config().model_dir, 4);
  StopAtCheckpointStepHook hook({.last_step = 3});
  session.run(hook, 3);
  EXPECT_TRUE(session.stop_requested());
}

TEST(StopAtCheckpointStepHook, AWorkerDoesNotLeaveOnAnOlderCheckpoint) {
  FakeSession session;
  session.mutable_config().cluster.task.is_chief = false;
  put_checkpoint(session.config().model_dir, 2);
  StopAtCheckpointStepHook hook({.last_step = 3, .wait_after_file_check = 0ms, .timeout = 0ms});
  session.run(hook, 2);
  try {
    session.run(hook);
    FAIL() << "it did not wait";
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("the chief's checkpoint of step 3 in"));
  }
  EXPECT_FALSE(session.stop_requested());
}

TEST(StopAtCheckpointStepHook, RefusesAStepThatIsNone) {
  EXPECT_THROW(StopAtCheckpointStepHook({}), InvalidArgument);
}

}  // namespace
}  // namespace muster
