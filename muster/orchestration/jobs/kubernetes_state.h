#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/orchestration/jobs/job.h"

namespace muster::jobs {

/// A pod of a task. A task that is retried has several, one after the other.
struct KubernetesTaskPod {
  std::string name{};
  /// As TF_CONFIG calls it: "worker".
  std::string type{};
  std::int64_t index = 0;
  /// Whether its container has started, so that it has a log.
  bool has_log = false;
  /// Whether no line will follow.
  bool is_over = false;
};

/// State of a job as `kubectl get jobs,pods -o json` (or jobset, tfjob) of its objects reports it.
struct KubernetesState {
  State state = State::kQueued;
  /// Why it does not continue, or why it failed; empty if there is nothing to say.
  std::string note{};
  /// Whether the cluster has none of its objects.
  bool is_gone = true;
  /// Whether all that is left is being deleted.
  bool is_deleted = false;
  std::vector<KubernetesTaskPod> pods{};
  /// Jobs that would go on although the job is over.
  std::vector<std::string> unfinished_jobs{};
  /// When it ended, where the cluster says so.
  std::optional<Time> end_time{};
};

/// `has_run`: whether all tasks were up once. Throws InvalidArgument for what is no such answer.
KubernetesState kubernetes_state(std::string_view kubectl_json, bool has_run);

}  // namespace muster::jobs
