#include "muster/data/summary/task_sampler.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <optional>
#include <set>
#include <string>
#include <variant>

#include "muster/base/semaphore.h"
#include "muster/data/summary/event_reader.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::IsSupersetOf;
using testing::TempDir;

TEST(TaskSampler, WritesSamplesAtTheStepOfTheTask) {
  const TempDir folder;
  Semaphore sampled(0);
  {
    const TaskSampler sampler({.folder = folder / "machine.worker_1",
                               .period = std::chrono::milliseconds(1),
                               .step = [] { return 7; },
                               .more = [&sampled]() -> NamedValues {
                                 sampled.release();
                                 return {{"step_percent/input", 25}};
                               }});
    sampled.acquire();
    sampled.acquire();
  }
  EventReader reader(folder / "machine.worker_1");
  std::multiset<std::string> tags;
  while (const auto event = reader.next()) {
    const auto* summary = std::get_if<Summary>(&event->what);
    if (summary == nullptr) continue;
    EXPECT_EQ(event->step, 7);
    for (const SummaryValue& value : *summary) tags.insert(value.tag);
  }
  EXPECT_GE(tags.count("step_percent/input"), 2U);
  EXPECT_THAT(tags, IsSupersetOf({"machine/processors", "machine/memory_mib"}));
}

TEST(TaskSampler, MakesNoFolderBeforeItsFirstSample) {
  const TempDir folder;
  {
    const TaskSampler sampler({.folder = folder / "machine.local", .step = [] { return 0; }});
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "machine.local"));
}

TEST(TaskSampler, NamesAFolderOfEachTask) {
  EXPECT_EQ(TaskSampler::folder_of("runs/a", "worker:1"), "runs/a/machine.worker_1");
  EXPECT_EQ(TaskSampler::folder_of("runs/a", ""), "runs/a/machine.local");
}

TEST(TaskSampler, TakesItsPeriodFromTheEnvironment) {
  ::setenv("MUSTER_MACHINE_SECONDS", "0.5", 1);
  EXPECT_EQ(TaskSampler::period(), std::chrono::milliseconds(500));
  ::setenv("MUSTER_MACHINE_SECONDS", "0", 1);
  EXPECT_EQ(TaskSampler::period(), std::nullopt);
  ::setenv("MUSTER_MACHINE_SECONDS", "often", 1);
  EXPECT_EQ(TaskSampler::period(), std::chrono::seconds(10));
  ::unsetenv("MUSTER_MACHINE_SECONDS");
}

}  // namespace
}  // namespace muster
