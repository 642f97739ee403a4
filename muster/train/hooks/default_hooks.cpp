#include "muster/train/hooks/default_hooks.h"

#include "muster/base/error.h"
#include "muster/train/hooks/logging_hooks.h"
#include "muster/train/hooks/progress_hook.h"
#include "muster/train/hooks/saver_hooks.h"

namespace muster {
namespace {

std::shared_ptr<CheckpointSaverHook> make_saver(const RunConfig& config) {
  CheckpointSaverOptions options{.save_steps = config.checkpoints.save_checkpoints_steps};
  if (config.checkpoints.save_checkpoints_secs)
    options.save_secs = Seconds(*config.checkpoints.save_checkpoints_secs);
  if (!options.save_steps && !options.save_secs) options.save_secs = Seconds(600);
  return std::make_shared<CheckpointSaverHook>(options);
}

std::shared_ptr<CheckpointSaverHook> find_saver(const Hooks& hooks) {
  for (const auto& hook : hooks) {
    if (auto saver = std::dynamic_pointer_cast<CheckpointSaverHook>(hook)) return saver;
  }
  return nullptr;
}

}  // namespace

Hooks default_hooks(const RunConfig& config, const TrainOptions& options,
                    std::optional<std::int64_t> last_step) {
  Hooks hooks = options.hooks;
  for (const auto& hook : hooks) {
    if (hook == nullptr) throw InvalidArgument("train: one of the hooks is empty");
  }
  if (config.log_step_count_steps > 0) {
    // Where all tasks make a step together, its loss is one, and the chief says it.
    if (config.is_chief() || !config.cluster.sync) {
      hooks.push_back(make_loss_logging_hook(config.log_step_count_steps));
    }
    if (config.is_chief()) {
      hooks.push_back(std::make_shared<StepCounterHook>(
          StepCounterOptions{.every_n_steps = config.log_step_count_steps}));
    }
  }
  hooks.push_back(std::make_shared<ProgressHook>(last_step));
  if (!config.is_chief()) return hooks;
  if (config.save_summary_steps > 0) {
    hooks.push_back(std::make_shared<SummarySaverHook>(
        SummarySaverOptions{.save_steps = config.save_summary_steps}));
  }
  auto saver = find_saver(hooks);
  if (saver == nullptr && config.checkpoints.save_checkpoints) {
    saver = make_saver(config);
    hooks.push_back(saver);
  }
  if (saver == nullptr && !options.saving_listeners.empty()) {
    throw InvalidArgument(
        "train: saving_listeners need checkpoints, which save_checkpoints = false turns off");
  }
  if (saver != nullptr) saver->set_run_listeners(options.saving_listeners);
  return hooks;
}

}  // namespace muster
