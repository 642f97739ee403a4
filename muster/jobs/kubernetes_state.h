#pragma once

#include <string>
#include <string_view>

#include "muster/jobs/job.h"

namespace muster::jobs {

/// What is known of a job from `kubectl get jobs,pods -o json` (or jobset, tfjob) of its objects.
struct KubernetesState {
  State state = State::kQueued;
  /// Why it does not go on, or why it failed; empty if there is nothing to say.
  std::string note{};
};

/// `has_run`: whether all tasks were up once. Throws InvalidArgument for what is no such answer.
KubernetesState kubernetes_state(std::string_view kubectl_json, bool has_run);

}  // namespace muster::jobs
