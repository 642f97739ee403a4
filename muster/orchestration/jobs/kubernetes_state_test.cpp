#include "muster/orchestration/jobs/kubernetes_state.h"

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

// Objects as kubectl shows those of our manifests: with role and index.
std::string role_job(const std::string& role, int tasks, const std::string& conditions = "") {
  return fmt::format(
      R"({{"kind": "Job", "metadata": {{"name": "c-{0}", "labels": {{"app.kubernetes.io/component": "{0}"}}}}, "spec": {{"parallelism": {1}}}, "status": {{"conditions": [{2}]}}}})",
      role, tasks, conditions);
}

std::string role_pod(const std::string& role, int index, const std::string& phase,
                     const std::string& more = "") {
  return fmt::format(
      R"({{"kind": "Pod", "metadata": {{"name": "c-{0}-{1}-x", "labels": {{"app.kubernetes.io/component": "{0}"}}, "annotations": {{"batch.kubernetes.io/job-completion-index": "{1}"}}}}, "status": {{"phase": "{2}"{3}}}}})",
      role, index, phase, more);
}

std::string ended(int exit_code, const std::string& reason = "Error") {
  return fmt::format(
      R"(, "containerStatuses": [{{"state": {{"terminated": {{"exitCode": {}, "reason": "{}"}}}}}}])",
      exit_code, reason);
}

constexpr const char* kComplete =
    R"({"type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T10:04:11Z"})";

TEST(KubernetesState, IsRunningWhenAllTasksThatAreAskedForAreUp) {
  const std::string jobs = role_job("master", 1) + "," + role_job("worker", 2);
  const std::string two = role_pod("master", 0, "Running") + "," + role_pod("worker", 0, "Running");
  EXPECT_EQ(state_of(jobs + "," + two), State::kPreparing);
  EXPECT_EQ(state_of(jobs + "," + two + "," + role_pod("worker", 1, "Running")), State::kRunning);
  const std::string set =
      R"({"kind": "JobSet", "spec": {"replicatedJobs": [{"replicas": 1, "template": {"spec": {"parallelism": 3}}}]}})";
  EXPECT_EQ(state_of(set + "," + two), State::kPreparing);
  const std::string tf_job =
      R"({"kind": "TFJob", "spec": {"tfReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}}})";
  EXPECT_EQ(state_of(tf_job + "," + two), State::kRunning);
}

TEST(KubernetesState, IsThatOfTheChief) {
  const auto seen = kubernetes_state(
      list_of(role_job("master", 1, kComplete) + "," + role_job("ps", 1) + "," +
              role_pod("master", 0, "Succeeded") + "," + role_pod("ps", 0, "Running")),
      true);
  EXPECT_EQ(seen.state, State::kSucceeded);
  EXPECT_EQ(seen.unfinished_jobs, std::vector<std::string>{"c-ps"});
  ASSERT_TRUE(seen.end_time.has_value());
  EXPECT_EQ(to_text(*seen.end_time), "2026-03-01T10:04:11.000000Z");
  ASSERT_EQ(seen.pods.size(), 2);
  EXPECT_EQ(seen.pods[1].type, "ps");
  EXPECT_TRUE(seen.pods[0].is_over);
  EXPECT_FALSE(seen.pods[1].is_over);
}

TEST(KubernetesState, SaysWhatBecameOfEveryPodThatFailed) {
  const std::string job = role_job("worker", 2);
  const std::string up = role_pod("worker", 1, "Running");
  const auto seen = [&](const std::string& pod) {
    return kubernetes_state(list_of(job + "," + up + "," + pod), /*has_run=*/true);
  };
  // One that may be retried.
  EXPECT_EQ(seen(role_pod("worker", 0, "Failed", ended(75))).state, State::kRunning);
  EXPECT_EQ(seen(role_pod("worker", 0, "Failed", ended(75))).note,
            "worker-replica-0: exited with status 75");
  EXPECT_EQ(
      seen(role_pod("worker", 0, "Failed", R"(, "reason": "Evicted", "message": "low on memory")"))
          .note,
      "worker-replica-0: Evicted: low on memory");
  EXPECT_EQ(
      seen(
          role_pod(
              "worker", 0, "Failed",
              R"(, "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}])" +
                  ended(143)))
          .note,
      "worker-replica-0: PreemptionByScheduler: preempted");
  EXPECT_THAT(seen(role_pod("worker", 0, "Unknown")).note, HasSubstr("its node does not answer"));
  // Before all were up it is still being prepared.
  EXPECT_EQ(state_of(job + "," + role_pod("worker", 0, "Failed", ended(75))), State::kPreparing);
}

TEST(KubernetesState, NamesTheReplicaThatFailedTheJob) {
  const auto failed = [](const char* reason, const char* message) {
    return fmt::format(R"({{"type": "Failed", "status": "True", "reason": "{}", "message": "{}"}})",
                       reason, message);
  };
  const auto misused = kubernetes_state(
      list_of(role_job("master", 1) + "," +
              role_job("worker", 1, failed("PodFailurePolicy", "exit code 2 of c-worker-0")) + "," +
              role_pod("worker", 0, "Failed", ended(2))),
      true);
  EXPECT_EQ(misused.state, State::kFailed);
  EXPECT_EQ(misused.note,
            "Job c-worker: PodFailurePolicy: exit code 2 of c-worker-0 (worker-replica-0 exited "
            "with status 2)");
  EXPECT_EQ(misused.unfinished_jobs, std::vector<std::string>{"c-master"});
  const auto memory = kubernetes_state(
      list_of(role_job("worker", 1, failed("MaxFailedIndexesExceeded", "1 failed")) + "," +
              role_pod("worker", 0, "Failed", ended(137, "OOMKilled"))),
      true);
  EXPECT_THAT(memory.note, HasSubstr("worker-replica-0: OOMKilled: it took more memory"));
  for (const char* reason : {"BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes"}) {
    const auto one = kubernetes_state(list_of(role_job("worker", 1, failed(reason, "m"))), true);
    EXPECT_EQ(one.state, State::kFailed);
    EXPECT_EQ(one.note, fmt::format("Job c-worker: {}: m", reason));
  }
}

TEST(KubernetesState, TellsWhatIsBeingDeletedFromWhatIsGone) {
  EXPECT_TRUE(kubernetes_state(list_of(""), true).is_gone);
  const std::string deleted =
      R"({"kind": "Pod", "metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}})";
  const auto seen = kubernetes_state(list_of(deleted), true);
  EXPECT_FALSE(seen.is_gone);
  EXPECT_TRUE(seen.is_deleted);
  EXPECT_EQ(seen.state, State::kCancelling);
  // The pod of a node that is drained: its Job makes another.
  const auto drained = kubernetes_state(list_of(deleted + "," + role_job("ps", 1)), true);
  EXPECT_FALSE(drained.is_deleted);
  EXPECT_EQ(drained.state, State::kRunning);
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
