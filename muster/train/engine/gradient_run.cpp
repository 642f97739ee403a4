#include "muster/train/engine/gradient_run.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "muster/base/log.h"
#include "muster/nn/device/devices.h"
#include "muster/nn/device/gpu.h"
#include "muster/train/engine/device_stepper.h"
#include "muster/train/engine/host_stepper.h"

namespace muster {
namespace {

std::unique_ptr<Stepper> make_stepper(const RunPlan& plan, LocalRun& local,
                                      LocalParticipant& participant, GradientReduction& reduction) {
  if (plan.is_on_device) return std::make_unique<DeviceStepper>(local, reduction);
  return std::make_unique<HostStepper>(local, participant, reduction, plan.captures_towers);
}

}  // namespace

GradientRun::GradientRun(const EstimatorOptions& options, const RunContext& context,
                         const InputFn& input_fn, RunSetup setup)
    : local_(options, context, input_fn, setup),
      strategy_(std::move(setup.strategy)),
      participant_(local_),
      source_(local_, strategy_->reduction()),
      stepper_(make_stepper(setup.plan, local_, participant_, strategy_->reduction())) {
  strategy_->attach(participant_);
  // A chief that was lost after its last step has only the end to tell; others may be gone.
  const bool is_over = local_.config.is_chief() && local_.progress.done();
  if (!is_over || !local_.is_shared()) synchronize();
}
GradientRun::~GradientRun() = default;

void GradientRun::synchronize() {
  local_.checkpoints.wait_until_copied();
  source_.forget_parts();
  // Nothing that is captured holds connections of those that are gone.
  stepper_->begin({});
  strategy_->membership().synchronize();
  if (const auto end = strategy_->membership().last_step(); end && !local_.config.is_chief()) {
    local_.progress.end_at(*end == RunContract::kNoLastStep ? std::nullopt : end);
  }
  local_.mine = strategy_->membership().replicas();
  stepper_->begin(local_.mine);
  if (local_.inputs.is_open()) local_.open_inputs();
}

std::map<std::string, double> GradientRun::learning_rates() const {
  // Rates of the step that was made last, if there was one.
  return local_.state.learning_rates(std::max<std::int64_t>(local_.step() - 1, 0));
}

void GradientRun::log_begin() const {
  const Towers& towers = local_.state.towers();
  // Those of the others are the same, or they would not train with it.
  if (local_.config.is_chief()) {
    for (const auto& line : local_.state.updater().descriptions()) log::info("{}", line);
  }
  log::info(
      "training {} scalars in {} variables, replicas={} threads_per_replica={} concurrent={} "
      "seed={}",
      towers.variables().parameter_count(), towers.variables().all().size(),
      towers.options().replicas, towers.options().threads_per_replica, towers.options().concurrent,
      local_.config.seed());
  if (towers.options().on_gpus()) {
    log::info("towers on {}, variables on {}", describe(towers.options().devices),
              towers.slots().primary().str());
  }
  const DeviceSlots& slots = towers.slots();
  for (std::size_t slot = 1; slot < slots.count(); ++slot) {
    const c10::Device device = slots.device(slot);
    if (has_peer_access(device, slots.primary())) continue;
    log::warning("{} and {} have no peer access: what they copy goes by way of the host",
                 slots.primary().str(), device.str());
  }
}

StepOutcome GradientRun::make_step(Session& /*session*/) {
  try {
    const StepOutcome outcome = stepper_->step();
    if (outcome == StepOutcome::kRolledBack) {
      local_.roll_back();
      local_.open_inputs();
    }
    return outcome;
  } catch (const PeersChanged& error) {
    log::warning("retrying step {}: {}", local_.step() + 1, error.what());
    stepper_->undo();
    synchronize();
    return StepOutcome::kGoesOn;
  }
}

void GradientRun::gather() {
  // Nothing bad is ever saved.
  stepper_->check_finite();
  const auto is_fetched = [this] {
    try {
      return source_.fetch(), true;
    } catch (const PeersChanged& error) {
      return log::warning("slots are asked for again: {}", error.what()), false;
    }
  };
  while (!is_fetched()) synchronize();
  local_.inputs.refresh_positions(local_.mine);
}

// The chief leaves with all that the last checkpoint needs of others, who wait until it is saved:
// until then they may be the only ones that have the last steps.
std::optional<int> GradientRun::leave(bool early) {
  try {
    if (!local_.config.is_chief()) {
      GradientReduction& reduction = strategy_->reduction();
      const bool leaves_first = early && !stepper_->has_input_ended() && !reduction.is_closed();
      if (!leaves_first) reduction.close();
      return strategy_->membership().leave(leaves_first);
    }
    source_.fetch_last();
    strategy_->membership().announce_end();
    return 0;
  } catch (const PeersChanged& error) {
    log::warning("step {} may not be saved yet: {}", local_.step(), error.what());
    synchronize();
    return std::nullopt;
  }
}

void GradientRun::end(int signal) {
  if (!local_.config.is_chief()) return;
  strategy_->membership().end(local_.step(), stepper_->has_input_ended() ? 0 : signal);
}

std::unique_ptr<GradientRun> make_gradient_run(const EstimatorOptions& options,
                                               const RunContext& context, const InputFn& input_fn) {
  return std::make_unique<GradientRun>(options, context, input_fn, set_up_run(options, context));
}

}  // namespace muster
