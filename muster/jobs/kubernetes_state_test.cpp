#include "muster/jobs/kubernetes_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::jobs {
namespace {

using ::testing::HasSubstr;

std::string list_of(const std::string& items) {
  return R"({"kind": "List", "items": [)" + items + "]}";
}

std::string job_with(const std::string& conditions) {
  return R"({"kind": "Job", "metadata": {"name": "c-worker"}, "status": {"conditions": [)" +
         conditions + "]}}";
}

std::string pod_with(const std::string& phase, const std::string& more = "") {
  return R"({"kind": "Pod", "metadata": {"name": "c-worker-0-x"}, "status": {"phase": ")" + phase +
         "\"" + more + "}}";
}

std::string waiting(const std::string& reason) {
  return R"(, "conditions": [{"type": "PodScheduled", "status": "True"}], "containerStatuses": )"
         R"([{"state": {"waiting": {"reason": ")" +
         reason + R"(", "message": "says why"}}}])";
}

State state_of(const std::string& items, bool has_run = false) {
  return kubernetes_state(list_of(items), has_run).state;
}
std::string note_of(const std::string& items) {
  return kubernetes_state(list_of(items), false).note;
}

TEST(KubernetesState, IsOneOfAJobForEveryConditionOfItsObjects) {
  const std::string job = job_with("");
  EXPECT_EQ(state_of(job), State::kQueued);
  const std::string unscheduled = pod_with(
      "Pending",
      R"(, "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}])");
  EXPECT_EQ(state_of(job + "," + unscheduled), State::kQueued);
  EXPECT_EQ(note_of(job + "," + unscheduled), "c-worker-0-x: Unschedulable: 0/3 nodes");
  EXPECT_EQ(
      state_of(job_with(R"({"type": "Suspended", "status": "True"})") + "," + pod_with("Running")),
      State::kQueued);
  EXPECT_EQ(state_of(job + "," + pod_with("Pending", waiting("ContainerCreating"))),
            State::kPreparing);
  EXPECT_EQ(note_of(job + "," + pod_with("Pending", waiting("ContainerCreating"))), "");
  for (const char* reason :
       {"ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "InvalidImageName"}) {
    const std::string pod = pod_with("Pending", waiting(reason));
    EXPECT_EQ(state_of(job + "," + pod), State::kPreparing);
    EXPECT_EQ(note_of(job + "," + pod), fmt::format("c-worker-0-x: {}: says why", reason));
  }
  EXPECT_EQ(state_of(job + "," + pod_with("Running") + "," + pod_with("Running")), State::kRunning);
  const std::string half =
      job + "," + pod_with("Running") + "," + pod_with("Pending", waiting("ContainerCreating"));
  EXPECT_EQ(state_of(half), State::kPreparing);
  EXPECT_EQ(state_of(half, /*has_run=*/true), State::kRunning);
  EXPECT_EQ(state_of(job + "," + pod_with("Running", waiting("CrashLoopBackOff"))),
            State::kRunning);
}

TEST(KubernetesState, EndsWithTheJobs) {
  const std::string complete = job_with(R"({"type": "Complete", "status": "True"})");
  EXPECT_EQ(state_of(complete + "," + complete), State::kSucceeded);
  EXPECT_EQ(state_of(job_with(R"({"type": "SuccessCriteriaMet", "status": "True"})")),
            State::kSucceeded);
  EXPECT_EQ(state_of(complete + "," + job_with("") + "," + pod_with("Running")), State::kRunning);
  const std::string failed = job_with(
      R"({"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": "exit code 2"})");
  EXPECT_EQ(state_of(failed + "," + complete), State::kFailed);
  EXPECT_EQ(note_of(failed), "Job c-worker: PodFailurePolicy: exit code 2");
  EXPECT_EQ(state_of(job_with(R"({"type": "Failed", "status": "False"})")), State::kQueued);
  EXPECT_EQ(
      state_of(R"({"kind": "Job", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})"),
      State::kCancelling);
  EXPECT_EQ(
      kubernetes_state(
          R"({"kind": "TFJob", "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}})",
          false)
          .state,
      State::kSucceeded);
  const std::string oom = pod_with(
      "Failed", R"(, "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}])");
  EXPECT_THAT(note_of(job_with("") + "," + oom), HasSubstr("more memory than its machine type"));
}

TEST(KubernetesState, IsNotReadFromAnythingElse) {
  EXPECT_THROW(kubernetes_state("", false), InvalidArgument);
  EXPECT_THROW(kubernetes_state("[]", false), InvalidArgument);
  EXPECT_EQ(
      kubernetes_state(R"({"kind": "List", "items": [3, null, {"kind": 5, "status": []}]})", false)
          .state,
      State::kQueued);
}

}  // namespace
}  // namespace muster::jobs
