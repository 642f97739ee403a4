#include <torch/types.h>

#include <atomic>
#include <optional>

#include "muster/base/freed_memory.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/distribution/parameter_server.h"
#include "muster/distribution/parameter_server/update_policy_internal.h"
#include "muster/train/engine/run_sampling.h"

namespace muster {
namespace internal {
namespace {

std::unique_ptr<UpdatePolicy> policy_of(ParameterShard& held, const EstimatorOptions& estimator,
                                        const ParameterServerOptions& options) {
  if (!held.config.cluster.sync) return make_async_updates(held);
  if (held.config.cluster.backup_replicas > 0) return make_backup_updates(held, estimator, options);
  return make_sync_updates(held, estimator, options);
}

// The chief ends the run; a signal to all tasks must not take the variables away before it has
// saved. While this lives, the first signal is only told of.
StopSignals outlast_signals() {
  return StopSignals([](int signal) {
    log::info(
        "signal {}: the variables stay until the chief ends the run; a second one ends this "
        "task at once",
        signal);
  });
}

// Waits for messages, sums and updates are all that a ps does: it has no parts of a step to tell.
class ServerSampling {
 public:
  explicit ServerSampling(const RunConfig& config) {
    const auto period = TaskSampler::period();
    if (!period) return;
    sampler_.emplace(TaskSamplerOptions{.folder = sampling_folder(config),
                                        .period = *period,
                                        .step = [this] { return step_.load(); }});
  }
  void set_step(std::int64_t step) { step_.store(step); }

 private:
  std::atomic<std::int64_t> step_{0};
  // Last, since its thread uses the other.
  std::optional<TaskSampler> sampler_;
};

void serve(ParameterShard& held, UpdatePolicy& policy) {
  held.membership.join(policy.terms(held.own_terms()));
  const torch::NoGradGuard no_grad;
  keep_freed_memory();
  policy.prepare();
  ServerSampling sampling(held.config);
  for (bool going_on = true; going_on;) {
    going_on = join_generation(held, policy);
    try {
      while (going_on && policy.serve_next()) sampling.set_step(held.step);
      going_on = false;
    } catch (const PeersChanged& error) {
      log::info("step {}: {}", held.step + 1, error.what());
    }
  }
  policy.log_end();
  if (const int signal = held.membership.leave(/*early=*/false)) {
    throw Interrupted(signal, "the run was stopped by signal {} to the chief after step {}", signal,
                      held.step);
  }
}

}  // namespace

bool join_generation(ParameterShard& held, UpdatePolicy& policy) {
  const bool goes_on = synchronize(
      held.membership, synchronize_deadline(held.config, held.has_state),
      [&] { return held.progress(); },
      [&](Group& group, const Source& source) {
        held.group = &group;
        return policy.begin(source);
      });
  held.group = &held.membership.group();
  return goes_on;
}

void serve_in_thread(const EstimatorOptions& estimator, const RunConfig& config,
                     const ParameterServerOptions& options) {
  ParameterShard held(estimator, config, options);
  const auto policy = policy_of(held, estimator, options);
  serve(held, *policy);
}

}  // namespace internal

void serve_parameters(const EstimatorOptions& estimator, const RunConfig& config,
                      const ParameterServerOptions& options) {
  const StopSignals signals = internal::outlast_signals();
  internal::serve_in_thread(estimator, config, options);
}

}  // namespace muster
