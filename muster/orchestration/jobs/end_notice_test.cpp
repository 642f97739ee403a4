#include "muster/orchestration/jobs/end_notice.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/job_text.h"
#include "muster/testing/temp_dir.h"

namespace muster::jobs {
namespace {

Job failed_job() {
  Job job{.job_id = "census",
          .state = State::kFailed,
          .start_time = Time(std::chrono::seconds(100)),
          .end_time = Time(std::chrono::seconds(112)),
          .error_message = "The replica master 0 exited with a non-zero status of 1."};
  job.local.exit_status = 1;
  job.training_input.job_dir = "runs/census";
  return job;
}

TEST(EndNotice, TellsUrlsAndCommandsAndGoesOnWhereOneFails) {
  const ::muster::testing::TempDir folder;
  Job job = failed_job();
  const std::string file = (folder / "told").string();
  job.local.notices = {
      "exit 3", "https://chat.example/hook",
      "printf '%s ' \"$MUSTER_JOB_NAME\" \"$MUSTER_JOB_STATE\" > " + file + "; cat >> " + file};
  std::string url;
  std::string body;
  tell_of_end(job, [&](const std::string& given_url, const std::string& given_body) {
    url = given_url;
    body = given_body;
    throw Unavailable("no network");
  });
  EXPECT_EQ(url, "https://chat.example/hook");
  const auto json = nlohmann::json::parse(body);
  EXPECT_EQ(
      json["text"],
      "job census failed after 12 s: The replica master 0 exited with a non-zero status of 1.");
  EXPECT_EQ(json["state"], "FAILED");
  EXPECT_EQ(json["exitStatus"], 1);
  EXPECT_EQ(::muster::testing::read_bytes(folder / "told"), "census FAILED " + body);
}

TEST(EndNotice, IsKeptWithTheJob) {
  Job job = failed_job();
  job.local.command = {"/bin/true"};
  job.local.notices = {"https://chat.example/hook", "mail -s done me"};
  EXPECT_EQ(job_from_json(to_json(job)).local.notices, job.local.notices);
}

TEST(EndNotice, IsAUrlOrACommand) {
  EXPECT_NO_THROW(check_notice("https://chat.example/hook"));
  EXPECT_NO_THROW(check_notice("curl -d @- ftp://host"));
  EXPECT_THROW(check_notice(""), InvalidArgument);
  EXPECT_THROW(check_notice("ftp://host/x"), InvalidArgument);
  EXPECT_THROW(check_notice("a\x1b[1mb"), InvalidArgument);
}

}  // namespace
}  // namespace muster::jobs
