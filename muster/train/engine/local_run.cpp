#include "muster/train/engine/local_run.h"

#include <iterator>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/nn/device/devices.h"
#include "muster/train/engine/run_terms.h"
#include "muster/train/engine/seed_streams.h"

namespace muster {
namespace {

// In a cluster a GPU has nothing to do until the others have spoken: batches are ready by then.
BatchPrefetcher::Prepare preparation(const TowerOptions& towers) {
  return towers.shared && towers.on_gpus() ? BatchPrefetcher::Prepare(pinned) : nullptr;
}

NanGuard::Steps kind_of_steps(const RunPlan& plan) {
  if (plan.is_on_device) return NanGuard::Steps::kOnDevice;
  return plan.towers.shared ? NanGuard::Steps::kOnHostOfSeveral : NanGuard::Steps::kOnHost;
}

}  // namespace

LocalRun::LocalRun(const EstimatorOptions& estimator_options, const RunContext& context,
                   const InputFn& input_fn, const RunSetup& setup)
    : options(estimator_options),
      config(context.config),
      progress(context.progress),
      checkpoints(context.checkpoints),
      times(context.times),
      state(options, config, setup.plan, /*is_fresh=*/!setup.from),
      inputs(input_fn, setup.plan.towers.replicas,
             derive_key(setup.plan.towers.seed, seed_stream::kTrainInput),
             preparation(setup.plan.towers)),
      nan_guard(options.nan_policy, kind_of_steps(setup.plan)) {
  if (setup.from) {
    restore(*setup.from);
  } else {
    resume_inputs(std::nullopt);
  }
}

RunState LocalRun::run_state() const {
  const TowerOptions& towers = state.towers().options();
  RunState saved{.global_step = step(),
                 .replicas = towers.replicas,
                 .threads_per_replica = towers.threads_per_replica,
                 .seed = towers.seed,
                 .arithmetic = arithmetic_of(towers),
                 .compile = compile_term(towers.compile),
                 .loss_scale = state.scale().value(),
                 .loss_scale_steps = state.scale().good_steps()};
  // Tasks of a cluster that came later do not know it.
  if (!is_shared()) saved.batches = batches_taken;
  saved.inputs = inputs.positions();
  saved.input_obstacle = inputs.obstacle();
  return saved;
}

void LocalRun::restore(const ResumePoint& from) {
  progress.resume_at(state.restore(from));
  resume_inputs(from.state);
}

// Where the inputs continue; open_inputs() opens them.
void LocalRun::resume_inputs(const std::optional<RunState>& saved) {
  inputs.resume(saved, step() + nan_guard.bad_steps());
  // An input without a position restarts, and so does the count.
  const bool go_on = saved && std::ssize(saved->inputs) == state.towers().options().replicas &&
                     inputs.obstacle().empty();
  batches_taken = go_on ? saved->batches.value_or(step()) : 0;
}

std::optional<ResumePoint> LocalRun::last_saved() {
  if (!config.is_chief()) throw Internal("this task has no checkpoints to go back to");
  checkpoints.flush();
  return latest_resume_point(config.model_dir);
}

void LocalRun::roll_back() {
  const auto from = last_saved();
  if (!from) throw FailedPrecondition("there is no checkpoint to go back to");
  restore(*from);
}

void LocalRun::roll_back_or_begin_again() {
  if (const auto from = last_saved()) return restore(*from);
  // No step is made before the first checkpoint is saved.
  if (step() > 0) throw FailedPrecondition("there is no checkpoint to go back to");
  resume_inputs(std::nullopt);
}

void LocalRun::restore_snapshot(const RunSnapshot& from) {
  const RunState saved = parse_run_state(from.state_json, "the state of another task");
  progress.jump_to(from.step);
  nan_guard.set_bad_steps(from.skipped_batches);
  state.scale().restore(saved.loss_scale, saved.loss_scale_steps);
  state.towers().commit();
  inputs.resume(saved, from.inputs_from);
}

void LocalRun::use_up_batches() {
  inputs.use_up();
  ++batches_taken;
}

}  // namespace muster
