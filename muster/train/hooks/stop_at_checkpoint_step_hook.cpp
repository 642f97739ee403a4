#include "muster/train/hooks/stop_hooks.h"

#include "muster/base/error.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/train/hooks/poll_until_internal.h"

namespace muster {
namespace {

bool has_checkpoint_of(const Path& model_dir, std::int64_t step) {
  const auto latest = latest_checkpoint(model_dir);
  return latest && checkpoint_step(*latest).value_or(-1) >= step;
}

}  // namespace

StopAtCheckpointStepHook::StopAtCheckpointStepHook(const StopAtCheckpointStepOptions& options)
    : options_(options) {
  if (options_.last_step <= 0) {
    throw InvalidArgument("StopAtCheckpointStepHook: last_step must be positive: {}",
                          options_.last_step);
  }
}

void StopAtCheckpointStepHook::after_run(Session& session) {
  if (session.global_step() < options_.last_step) return;
  if (!session.config().is_chief()) {
    const Path& model_dir = session.config().model_dir;
    const auto reason = [&] {
      return fmt::format("the chief's checkpoint of step {} in {}", options_.last_step,
                         model_dir.string());
    };
    poll_until(session, Deadline::after(options_.timeout), options_.wait_after_file_check, reason,
               [&] { return has_checkpoint_of(model_dir, options_.last_step); });
  }
  session.request_stop(fmt::format("step {} is reached", options_.last_step));
}

}  // namespace muster
