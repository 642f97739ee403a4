#pragma once

#include <memory>

#include "muster/distribution/parameter_server/parameter_shard_internal.h"

namespace muster::internal {

/// When a server makes an update, and of what: the one thing in which servers differ. Made for
/// variables that outlive it, and used by the server's thread alone, in this order: terms, prepare,
/// then begin for each generation with serve_next after it, and log_end.
class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;

  /// A task's own terms with what the others must know of this policy: one with another is refused
  /// when it joins.
  virtual RunContract terms(RunContract own) const = 0;
  /// The terms of the run are known.
  virtual void prepare() {}
  /// A generation begins: brings this task to the state of the run, and others that it has to.
  /// False when the run has ended. Throws PeersChanged.
  virtual bool begin(const Source& source) = 0;
  /// Makes the next step, or takes the next message. False when the run has ended. Throws
  /// PeersChanged, with all values as they were.
  virtual bool serve_next() = 0;
  /// The run has ended.
  virtual void log_end() = 0;
};

/// All replicas of a step count: each step is made of the gradients of all tasks, by all servers or
/// by none. Weights are those of one process.
std::unique_ptr<UpdatePolicy> make_sync_updates(ParameterShard& held,
                                                const EstimatorOptions& options,
                                                const ParameterServerOptions& server_options);
/// RunConfig::cluster.backup_replicas: all but the last so many count, and what comes later is
/// dropped.
std::unique_ptr<UpdatePolicy> make_backup_updates(ParameterShard& held,
                                                  const EstimatorOptions& options,
                                                  const ParameterServerOptions& server_options);
/// RunConfig::cluster.sync is false: every push is applied as it comes, and answered with the
/// values that it made.
std::unique_ptr<UpdatePolicy> make_async_updates(ParameterShard& held);

/// Takes part in the next generation of the run; a server is in one from then on. False when the
/// run has ended. Before it, the membership is joined with the policy's terms.
bool join_generation(ParameterShard& held, UpdatePolicy& policy);

/// serve_parameters() of one of several tasks in a process, which leaves signals to it.
void serve_in_thread(const EstimatorOptions& estimator, const RunConfig& config,
                     const ParameterServerOptions& options);

}  // namespace muster::internal
