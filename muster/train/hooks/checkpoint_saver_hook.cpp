#include "muster/train/hooks/saver_hooks.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/summary/event_writer.h"
#include "muster/platform/cluster/trial_pause.h"

namespace muster {

CheckpointSaverHook::CheckpointSaverHook(CheckpointSaverOptions options)
    : timer_("CheckpointSaverHook",
             {.every_steps = options.save_steps, .every_secs = options.save_secs},
             std::move(options.clock)) {
  log::info("Create CheckpointSaverHook.");
  set_run_listeners(options.listeners);
  own_listeners_ = listeners_.size();
}

void CheckpointSaverHook::set_run_listeners(const SavingListeners& listeners) {
  listeners_.resize(own_listeners_);
  for (const auto& listener : listeners) {
    if (!listener) throw InvalidArgument("CheckpointSaverHook: a listener is null");
    listeners_.push_back(listener);
  }
}

void CheckpointSaverHook::begin(Session& session) {
  for (const auto& listener : listeners_) listener->begin(session);
}

void CheckpointSaverHook::after_create_session(Session& session) {
  timer_.reset();
  if (!trial_pauses()) return save(session);
  timer_.update_last_triggered(session.global_step());
}

void CheckpointSaverHook::after_run(Session& session) {
  if (timer_.should_trigger(session.global_step())) save(session);
}

void CheckpointSaverHook::end(Session& session) {
  const std::int64_t step = session.global_step();
  if (timer_.last_triggered_step() != step) {
    save(session);
  } else {
    session.save_checkpoint(listeners_);  // Does nothing unless that save has failed.
  }
  for (const auto& listener : listeners_) listener->end(session, step);
}

void CheckpointSaverHook::save(Session& session) {
  const std::int64_t step = session.global_step();
  session.save_checkpoint(listeners_);
  timer_.update_last_triggered(step);
  const Path prefix = session.config().model_dir / fmt::format("model.ckpt-{}", step);
  session.events().add_session(
      {.status = SessionMark::Status::kCheckpoint, .checkpoint_path = prefix.string()}, step);
}

}  // namespace muster
