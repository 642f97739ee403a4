#pragma once

#include <string>

#include "muster/orchestration/jobs/job_store.h"
#include "muster/orchestration/jobs/kubernetes_state.h"

namespace muster::jobs {

/// Appends a line to the job's own log, as muster's logger writes them.
void say(const JobStore& store, const std::string& name, char level, const std::string& text);

/// Keeps the new lines of all pods. Of two processes that read at once one leaves it to the other,
/// unless it `must_end`: then it waits. Returns whether all was read.
bool fetch_logs(const JobStore& store, const Job& job, const KubernetesState& seen, bool must_end);

}  // namespace muster::jobs
