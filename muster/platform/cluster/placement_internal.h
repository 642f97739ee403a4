#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "muster/platform/cluster/task_environment.h"

namespace muster::internal {

/// The rules for cluster and task that hold wherever they were read. `source` begins every error
/// and warning: "TF_CONFIG".

/// Takes listed evaluators out of the cluster, where others would wait for them, and checks that
/// there is one chief or master. Throws UsageError.
void settle_cluster(TaskEnvironment& environment, std::string_view source);

/// Works out what follows from cluster and task, once both are set and the cluster is settled.
/// Throws UsageError for a task that is not of this cluster.
void settle_task(TaskEnvironment& environment, std::string_view source);

/// A text for a message, cut to about a line.
std::string shortened(std::string text, std::size_t most_bytes = 200);

/// A word for a message: in quotes, printable whatever it holds, not longer than a line.
std::string in_quotes(std::string_view text);

}  // namespace muster::internal
