// Who starts when; processes are in tests/jobs_process_test.cpp.
#include "muster/orchestration/jobs/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/orchestration/jobs/job_runner.h"
#include "muster/testing/forked.h"
#include "muster/testing/temp_dir.h"

namespace muster::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Resources kHost{.cpus = 4, .memory_gb = 8, .gpus = 2};

Job waiting(const std::string& name, int age, Resources needs = {.cpus = 2}) {
  Job job{.job_id = name, .create_time = Time(std::chrono::seconds(age))};
  job.local.needs = needs;
  return job;
}

std::vector<std::string> chosen(std::vector<Job> jobs, const std::vector<Job>& running = {}) {
  std::vector<std::string> names;
  for (const Job& job : choose_jobs(std::move(jobs), running, kHost)) names.push_back(job.job_id);
  return names;
}

TEST(Queue, StartsTheOldestAsFarAsTheHostGoes) {
  EXPECT_THAT(chosen({waiting("c", 3), waiting("a", 1), waiting("b", 2)}), ElementsAre("a", "b"));
  EXPECT_THAT(chosen({waiting("c", 3)}, {waiting("a", 1), waiting("b", 2)}), IsEmpty());
}

TEST(Queue, CountsProcessorsMemoryAndGpus) {
  for (const Resources needs : {Resources{.cpus = 3}, Resources{.cpus = 1, .memory_gb = 5},
                                Resources{.cpus = 1, .memory_gb = 1, .gpus = 2}}) {
    EXPECT_THAT(chosen({waiting("a", 1, needs), waiting("b", 2, needs)}), ElementsAre("a"));
  }
}

TEST(Queue, LetsNoneOvertakeOneThatWaitsForMore) {
  EXPECT_THAT(chosen({waiting("large", 1, {.cpus = 4}), waiting("small", 2, {.cpus = 1})},
                     {waiting("runs", 0, {.cpus = 1})}),
              IsEmpty());
}

TEST(Queue, StartsByPriority) {
  Job urgent = waiting("urgent", 9, {.cpus = 4});
  urgent.training_input.priority = 1;
  EXPECT_THAT(chosen({waiting("a", 1), urgent}), ElementsAre("urgent"));
}

TEST(Queue, StartsOneThatIsLargerThanTheHostWhenNothingElseRuns) {
  EXPECT_THAT(chosen({waiting("huge", 1, {.cpus = 9}), waiting("b", 2)}), ElementsAre("huge"));
  EXPECT_THAT(chosen({waiting("huge", 1, {.cpus = 9})}, {waiting("b", 2)}), IsEmpty());
}

TEST(Queue, ResumesBeforeItStartsAndEndsWhatIsCancelledAtOnce) {
  Job lost = waiting("lost", 5, {.cpus = 4});
  lost.state = State::kRunning;
  Job cancelled = waiting("cancelled", 6, {.cpus = 4});
  cancelled.state = State::kCancelling;
  EXPECT_THAT(chosen({waiting("a", 1), lost, cancelled}), ElementsAre("lost", "cancelled"));
}

TEST(Cancel, OfAJobThatWaitsEndsItAtOnceAndOfOneThatIsOverDoesNothing) {
  const ::muster::testing::TempDir dir;
  const JobStore store(dir.path());
  store.create(waiting("a", 1), {});
  const Job cancelled = cancel_local_job(store, "a", "why");
  EXPECT_EQ(cancelled.state, State::kCancelled);
  EXPECT_EQ(cancelled.error_message, "why");
  EXPECT_TRUE(cancelled.end_time.has_value());
  EXPECT_EQ(cancel_local_job(store, "a", "again"), store.read("a"));
  EXPECT_EQ(store.read("a").error_message, "why");
}

TEST(Cancel, OfAJobThatRunsAsksForItsEnd) {
  const ::muster::testing::TempDir dir;
  const JobStore store(dir.path());
  Job job = waiting("a", 1);
  job.state = State::kRunning;
  store.create(job, {});
  EXPECT_EQ(cancel_local_job(store, "a", "why").state, State::kCancelling);
  // No process runs it any more: one that is started for it ends it, and starts no task.
  ::muster::testing::Forked runner([&](const auto&) {
    run_job(store, "a");
    return 0;
  });
  EXPECT_EQ(runner.wait(), 0);
  EXPECT_EQ(store.read("a").state, State::kCancelled);
  EXPECT_EQ(store.read("a").local.attempts, 0);
}

}  // namespace
}  // namespace muster::jobs
