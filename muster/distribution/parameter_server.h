#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/distribution/peer_options.h"
#include "muster/train/engine/strategy.h"
#include "muster/train/estimator/estimator.h"

namespace muster {

struct ParameterServerOptions {
  PeerOptions peers{};
  /// With RunConfig::cluster.ps_log: a ps restarts its log when the steps in it take more than
  /// this, and more than twice what it holds.
  std::uint64_t log_bytes = std::uint64_t{64} << 20;
  /// Servers that see the chief's model_dir write their own parts of its checkpoints, if a part has
  /// this many bytes on average; else the chief fetches the slots and writes everything.
  std::uint64_t part_bytes = std::uint64_t{64} << 20;
};

/// Variables and slots live on the `ps` tasks of the cluster: tasks that train push gradients, the
/// servers add them up, decide about clipping together, update, and send the next values. A step is
/// made on all servers or on none.
///
/// A lost worker's replicas move to others. A lost server is waited for; what it held comes from
/// its log in MODEL_DIR/ps_log (RunConfig::cluster.ps_log), or else from the chief's last
/// checkpoint, and all go back to that together. Either way the weights are those of an undisturbed
/// run.
///
/// Where RunConfig::cluster.sync is false, each task's gradients are clipped by itself and applied
/// as they come: the global step counts these updates, and weights depend on who was faster.
std::unique_ptr<Strategy> make_parameter_server(const RunConfig& config,
                                                const ParameterServerOptions& options = {});

/// RunConfig::cluster.arguments of the chief, for a `ps` that was started without the flags that
/// say what it serves. Call it before serve_parameters(). Throws Unavailable when the chief does
/// not come within RunConfig::cluster.join_timeout.
std::vector<std::string> arguments_of_chief(const RunConfig& config,
                                            const PeerOptions& options = {});

/// Runs a `ps` task until the chief ends the run: holds its part of the estimator's variables.
/// Throws Unavailable when the chief is lost and does not come back in time.
void serve_parameters(const EstimatorOptions& estimator, const RunConfig& config,
                      const ParameterServerOptions& options = {});

}  // namespace muster
