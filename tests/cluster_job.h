#pragma once

namespace muster::testing {

/// Trains as one task of a cluster, as the flags and the environment say. Returns the exit status.
int run_cluster_job(int argc, char** argv);

}  // namespace muster::testing
