// A back end of a user's program, which sees of muster's headers what is installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "muster/orchestration/api.h"
#include "muster/testing/temp_dir.h"

namespace {

namespace fs = std::filesystem;
namespace jobs = muster::jobs;
using ::testing::ElementsAre;

// A spool folder, from which a daemon takes jobs: a file per job, NAME.done when it has run.
class SpoolBackEnd final : public jobs::BackEnd {
 public:
  explicit SpoolBackEnd(fs::path folder) : folder_(std::move(folder)) {}

  std::string name() const override { return "spool"; }
  std::string summary() const override { return "a folder from which a daemon takes jobs"; }
  std::vector<jobs::BackEndFlag> flags() const override {
    return {{.name = "--queue", .description = "The queue of the daemon", .default_value = "day"}};
  }

  void prepare(jobs::Submission& submission) const override {
    set_block_text(submission.job, "queue", submission.flags.text("--queue", "day"));
  }

  void submit(const jobs::JobStore& store, const jobs::Submission& submission) const override {
    const jobs::Job& job = submission.job;
    std::ofstream(file_of(job)) << block_text(job, "queue") << ' ' << job.local.command.front();
    store.change(job.job_id,
                 [&](jobs::Job& kept) { set_block_text(kept, "file", file_of(job).string()); });
  }

  void refresh(const jobs::JobStore& store, const std::vector<jobs::Job>& all) const override {
    for (const jobs::Job& job : all) {
      const bool is_done = fs::exists(file_of(job).concat(".done"));
      const bool is_there = fs::exists(file_of(job));
      store.change(job.job_id, [&](jobs::Job& kept) {
        if (is_done) kept.state = jobs::State::kSucceeded;
        if (!is_done && !is_there) kept.state = jobs::State::kCancelled;
      });
    }
  }

  void remove(const jobs::JobStore&, const jobs::Job& job) const override {
    fs::remove(file_of(job).concat(".done"));
  }

 protected:
  void end(const jobs::JobStore&, const jobs::Job& job) const override {
    fs::remove(block_text(job, "file"));
  }

 private:
  fs::path file_of(const jobs::Job& job) const { return folder_ / job.job_id; }

  fs::path folder_;
};

class OwnBackEnd : public ::testing::Test {
 protected:
  OwnBackEnd() { back_ends_.add(std::make_shared<SpoolBackEnd>(spool_.path())); }

  void submit(const std::string& name) {
    jobs::Submission submission;
    submission.job.job_id = name;
    submission.job.back_end = "spool";
    submission.job.local.command = {"/bin/true"};
    submission.flags.add("--queue", "night");
    back_ends_.find("spool").prepare(submission);
    submit_job(back_ends_, store_, submission, {});
  }
  jobs::State state_of(const std::string& name) {
    EXPECT_TRUE(refresh_jobs(back_ends_, store_, store_.list()));
    return store_.read(name).state;
  }

  muster::testing::TempDir spool_;
  muster::testing::TempDir dir_;
  jobs::JobStore store_{dir_ / "jobs"};
  jobs::BackEnds back_ends_ = jobs::BackEnds::built_in();
};

TEST_F(OwnBackEnd, RunsAJobToItsEnd) {
  submit("a");
  EXPECT_EQ(muster::testing::read_bytes(spool_ / "a"), "night /bin/true");
  EXPECT_EQ(state_of("a"), jobs::State::kQueued);
  muster::testing::write_bytes(spool_ / "a.done", "");
  EXPECT_EQ(state_of("a"), jobs::State::kSucceeded);
  remove_job(back_ends_, store_, "a");
  EXPECT_TRUE(store_.names().empty());
  EXPECT_FALSE(fs::exists(spool_ / "a.done"));
}

TEST_F(OwnBackEnd, EndsAJobThatIsCancelled) {
  submit("a");
  submit("b");
  const jobs::Job job = cancel_job(back_ends_, store_, "a", "not needed");
  EXPECT_EQ(job.state, jobs::State::kCancelled);
  EXPECT_EQ(job.error_message, "not needed");
  EXPECT_FALSE(fs::exists(spool_ / "a"));
  EXPECT_EQ(state_of("b"), jobs::State::kQueued);
  EXPECT_THAT(store_.names(), ElementsAre("a", "b"));
}

}  // namespace
