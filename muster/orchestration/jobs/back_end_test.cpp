#include "muster/orchestration/jobs/back_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/job_text.h"
#include "muster/orchestration/jobs/supervisor.h"
#include "muster/testing/temp_dir.h"

namespace muster::jobs {
namespace {

using ::testing::IsEmpty;

class RefusingBackEnd final : public BackEnd {
 public:
  void submit(const JobStore& store, const Submission& submission) const override {
    // It has its folder while it is handed over.
    EXPECT_EQ(store.read(submission.job.job_id).state, State::kQueued);
    throw Unavailable("nobody answers");
  }
  void refresh(const JobStore&, const std::vector<Job>&) const override {}
  void cancel(const JobStore&, const Job&) const override {}
};

TEST(BackEnd, ThatRefusesAJobLeavesNothingOfItBehind) {
  const testing::TempDir dir;
  const JobStore store(dir / "jobs");
  Submission submission;
  submission.job.job_id = "a";
  submission.job.back_end = "refusing";
  EXPECT_THROW(submit_to(RefusingBackEnd(), store, submission, {}), Unavailable);
  EXPECT_THAT(store.names(), IsEmpty());
}

TEST(BackEnd, OfAJobIsKeptAndKeepsTheSupervisorAway) {
  Job job{.job_id = "a"};
  EXPECT_TRUE(needs_supervisor(job));
  job.back_end = "slurm";
  EXPECT_FALSE(needs_supervisor(job));
  EXPECT_EQ(job_from_json(to_json(job)), job);
}

TEST(BackEnd, ThatThereIsNotIsNamedInAnError) {
  EXPECT_THROW(make_back_end("pbs"), InvalidArgument);
}

TEST(BackEnd, ThatCannotBeAskedLeavesJobsAsTheyWereLastSeen) {
  const testing::TempDir dir;
  const JobStore store(dir / "jobs");
  store.create({.job_id = "a", .back_end = "pbs", .state = State::kRunning}, {});
  refresh_jobs(store, store.list());
  EXPECT_EQ(store.read("a").state, State::kRunning);
}

}  // namespace
}  // namespace muster::jobs
