#pragma once

#include <vector>

#include "muster/orchestration/jobs/back_end.h"
#include "muster/orchestration/jobs/kubernetes.h"

namespace muster::jobs {

/// The flags that say what containers are made of: of `muster jobs submit --backend kubernetes` and
/// `muster kubernetes serve`.
std::vector<BackEndFlag> kubernetes_pod_flags();

/// The pod that they describe. Throws InvalidArgument for a value that is not of the form that the
/// flag takes.
KubernetesPod kubernetes_pod(const FlagValues& flags);

}  // namespace muster::jobs
