#include "muster/orchestration/jobs/back_ends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/job_text.h"
#include "muster/orchestration/jobs/supervisor.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::jobs {
namespace {

using ::muster::testing::message_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RefusingBackEnd final : public BackEnd {
 public:
  explicit RefusingBackEnd(std::string name = "refusing") : name_(std::move(name)) {}

  std::string name() const override { return name_; }
  std::string summary() const override { return "a system that takes no jobs"; }
  void submit(const JobStore& store, const Submission& submission) const override {
    // It has its folder while it is handed over.
    EXPECT_EQ(store.read(submission.job.job_id).state, State::kQueued);
    throw Unavailable("the queue does not answer");
  }
  void refresh(const JobStore&, const std::vector<Job>&) const override {
    throw Unavailable("the queue does not answer");
  }

 protected:
  void end(const JobStore&, const Job&) const override {}

 private:
  std::string name_;
};

BackEnds with_refusing() {
  BackEnds back_ends = BackEnds::built_in();
  back_ends.add(std::make_shared<RefusingBackEnd>());
  return back_ends;
}

TEST(BackEnd, ThatRefusesAJobLeavesNothingOfItBehind) {
  const testing::TempDir dir;
  const JobStore store(dir / "jobs");
  Submission submission;
  submission.job.job_id = "a";
  submission.job.back_end = "refusing";
  EXPECT_THROW(submit_job(with_refusing(), store, submission, {}), Unavailable);
  EXPECT_THAT(store.names(), IsEmpty());
}

TEST(BackEnd, ThatDoesNotAnswerLeavesJobsAsTheyWereLastSeen) {
  const testing::TempDir dir;
  const JobStore store(dir / "jobs");
  store.create({.job_id = "a", .back_end = "refusing", .state = State::kRunning}, {});
  EXPECT_FALSE(refresh_jobs(with_refusing(), store, store.list()));
  EXPECT_EQ(store.read("a").state, State::kRunning);
}

TEST(BackEnd, OfAJobIsKeptAndKeepsTheSupervisorAway) {
  Job job{.job_id = "a"};
  EXPECT_TRUE(needs_supervisor(job));
  job.back_end = "slurm";
  EXPECT_FALSE(needs_supervisor(job));
  EXPECT_EQ(job_from_json(to_json(job)), job);
}

TEST(BackEnd, ThatThereIsNotIsNamedInAnError) {
  EXPECT_THROW(BackEnds::built_in().find("pbs"), InvalidArgument);
  EXPECT_THAT(message_of([] { BackEnds::built_in().find("pbs"); }),
              HasSubstr("\"pbs\" in this version; there are local, slurm and kubernetes"));
}

TEST(BackEnd, ThatIsUnknownLeavesJobsAsTheyWereLastSeen) {
  const testing::TempDir dir;
  const JobStore store(dir / "jobs");
  store.create({.job_id = "a", .back_end = "pbs", .state = State::kRunning}, {});
  EXPECT_FALSE(refresh_jobs(BackEnds::built_in(), store, store.list()));
  EXPECT_EQ(store.read("a").state, State::kRunning);
  EXPECT_THROW(cancel_job(BackEnds::built_in(), store, "a", "why"), InvalidArgument);
}

TEST(BackEnds, HaveOneOfEachName) {
  BackEnds back_ends = BackEnds::built_in();
  EXPECT_THROW(back_ends.add(std::make_shared<RefusingBackEnd>("slurm")), InvalidArgument);
  // "state" and "labels" are fields of job.json, where the block of a job has the name of its back
  // end.
  for (const char* name : {"", "PBS", "p b s", "state", "labels"}) {
    EXPECT_THROW(back_ends.add(std::make_shared<RefusingBackEnd>(name)), InvalidArgument) << name;
  }
  EXPECT_EQ(back_ends.names_text(), "local, slurm and kubernetes");
  back_ends.add(std::make_shared<RefusingBackEnd>("pbs"));
  EXPECT_EQ(back_ends.names_text(), "local, slurm, kubernetes and pbs");
}

TEST(BackEnds, HaveFlagsOfDifferentNames) {
  std::set<std::string> names;
  for (const auto& back_end : BackEnds::built_in().all()) {
    EXPECT_FALSE(back_end->summary().empty()) << back_end->name();
    for (const BackEndFlag& flag : back_end->flags()) {
      EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
      EXPECT_TRUE(flag.name.starts_with("--")) << flag.name;
      EXPECT_FALSE(flag.description.empty()) << flag.name;
    }
  }
}

TEST(JobBlock, HasTextsByName) {
  Job job{.job_id = "a", .back_end = "pbs"};
  EXPECT_EQ(block_text(job, "id"), "");
  set_block_text(job, "id", "4711.server");
  set_block_text(job, "queue", "long \"one\"");
  EXPECT_EQ(block_text(job, "id"), "4711.server");
  EXPECT_EQ(block_text(job_from_json(to_json(job)), "queue"), "long \"one\"");
  EXPECT_THAT(to_json(job), HasSubstr("\"pbs\": {\n    \"id\": \"4711.server\""));
  job.block = "[]";
  EXPECT_THROW(block_text(job, "id"), DataLoss);
}

TEST(JobBlock, OfAFileThatIsNoObjectIsDamage) {
  std::string text = to_json({.job_id = "a", .back_end = "pbs", .block = R"({"id":"1"})"});
  const auto place = text.find("{\n    \"id\": \"1\"\n  }");
  ASSERT_NE(place, std::string::npos);
  text.replace(place, 19, "[1]");
  EXPECT_THROW(job_from_json(text), DataLoss);
}

TEST(LocalBackEnd, StartsTheSupervisorOfTheFolderForJobsThatGoOn) {
  const testing::TempDir dir;
  const Path mark = dir / "supervised";
  const JobStore store(dir / "jobs", {"/bin/sh", "-c", "echo x >> " + mark.string()});
  const auto starts = [&] {
    return std::filesystem::exists(mark) ? testing::read_bytes(mark).size() / 2 : 0;
  };
  const BackEnds& back_ends = BackEnds::built_in();
  submit_job(back_ends, store, {.job = {.job_id = "a"}}, {});
  EXPECT_TRUE(testing::eventually([&] { return starts() == 1; }));
  EXPECT_TRUE(refresh_jobs(back_ends, store, store.list()));
  EXPECT_TRUE(testing::eventually([&] { return starts() == 2; }));
  // One that waited is over at once.
  EXPECT_EQ(cancel_job(back_ends, store, "a", "why").state, State::kCancelled);
  EXPECT_TRUE(refresh_jobs(back_ends, store, store.list()));
  remove_job(back_ends, store, "a");
  EXPECT_THAT(store.names(), IsEmpty());
  EXPECT_EQ(starts(), 2U);
}

}  // namespace
}  // namespace muster::jobs
