#pragma once

#include <memory>
#include <string>

#include "muster/distribution/parameter_server/ps_membership_internal.h"
#include "muster/distribution/parameter_server/ps_reduction_internal.h"

namespace muster::internal {

/// The side of those that train, whatever kind of servers hold the variables.
std::unique_ptr<Strategy> make_ps_strategy(std::string description,
                                           std::unique_ptr<PsMembership> membership,
                                           std::unique_ptr<PsReduction> reduction);

/// Where all make each step together, with or without RunConfig::cluster.backup_replicas.
std::unique_ptr<Strategy> make_sync_strategy(const RunConfig& config,
                                             const ParameterServerOptions& options);
/// Where RunConfig::cluster.sync is false: this task's gradients become an update of their own, and
/// the task continues with what the servers have then.
std::unique_ptr<Strategy> make_async_strategy(const RunConfig& config,
                                              const ParameterServerOptions& options);

}  // namespace muster::internal
