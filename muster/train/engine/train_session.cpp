#include "muster/train/engine/train_session.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/summary/event_writer.h"

namespace muster {

TrainSession::TrainSession(const RunConfig& config, const TrainOptions& options, HooksOfRun hooks)
    : config_(config), options_(options), hooks_of_run_(std::move(hooks)) {}
TrainSession::~TrainSession() = default;

EventWriter& TrainSession::events() {
  if (event_writer_ == nullptr) event_writer_ = std::make_unique<EventWriter>(config_.model_dir);
  return *event_writer_;
}

void TrainSession::request_stop(std::string_view reason) {
  if (!stop_reason_.empty()) return;
  stop_reason_ = reason;
  log::info("stopping after step {}: {}", step_, reason);
}

void TrainSession::resume_at(std::int64_t step) {
  step_ = step;
  saved_step_ = step;
}

void TrainSession::wait_until_copied() {
  if (!being_copied_) return;
  checkpointer_->wait_until_copied();
  being_copied_.reset();
}

void TrainSession::flush_checkpoints() { checkpointer_->flush(); }

// Waits until the last save is written.
bool TrainSession::save_failed() {
  checkpointer_->flush();
  return checkpointer_->status().last_failure.has_value();
}

void TrainSession::begin_save() {
  gather();
  log::info("Saving checkpoints for {} into {}/model.ckpt.", step_, config_.model_dir.string());
  being_copied_ = content();
  // A run that is killed goes on from here, and the summaries of the steps before are not written
  // again: they are there before the checkpoint is. Not in this thread: a store takes its time.
  checkpointer_->save(
      step_, being_copied_->tensors, being_copied_->state_json,
      [events = event_writer_.get()] {
        if (events != nullptr) events->flush();
      },
      being_copied_->parts);
  saved_step_ = step_;
}

void TrainSession::save_checkpoint(const SavingListeners& listeners) {
  if (!config_.is_chief()) return;
  const bool again = saved_step_ == step_;
  if (again && !(ending_ && save_failed())) return;
  for (const auto& listener : listeners) listener->before_save(*this, step_);
  begin_save();
  if (listeners.empty() && !ending_) return;
  if (ending_ && !again && save_failed()) {
    log::warning("trying once more to save step {}, since no later one will be", step_);
    begin_save();
  }
  if (save_failed()) return;  // Logged already; listeners hear of whole checkpoints alone.
  for (const auto& listener : listeners) {
    if (listener->after_save(*this, step_)) request_stop("a checkpoint listener asked for it");
  }
}

void TrainSession::check_signal() {
  if (!options_.handle_signals || signal_ != 0) return;
  signal_ = StopSignals::received();
  if (signal_ != 0) request_stop(fmt::format("signal {}", signal_));
}

void TrainSession::for_each_hook(void (Hook::*call)(Session&)) {
  for (const auto& hook : hooks_) (hook.get()->*call)(*this);
}

template <typename Work>
auto TrainSession::naming_the_step(const Work& work) {
  try {
    return work();
  } catch (Error& error) {
    // After the last step it is the end of the run that failed.
    if (!done()) error.add_context(fmt::format("training step {}", step_ + 1));
    throw;
  }
}

void TrainSession::stop_with_chief(int signal) {
  if (signal == 0 || signal_ != 0) return;
  signal_ = signal;
  is_signal_of_chief_ = true;
}

bool TrainSession::step() {
  if (is_over_) return false;
  return naming_the_step([this] { return step_or_leave(); });
}

// Until a step is made, which a batch that is skipped does not do, or there are no more to make.
bool TrainSession::step_or_leave() {
  for (bool made = false;;) {
    check_signal();
    bool has_input = true;
    if (!stop_requested() && !done()) {
      if (made) return true;
      for_each_hook(&Hook::before_run);
      const std::int64_t before = step_;
      has_input = make_step();
      made = has_input && step_ > before;
      if (made) for_each_hook(&Hook::after_run);
      if (has_input) continue;
    }
    // Whoever may not leave yet may have been brought back to a step before the last.
    if (!leave()) continue;
    is_over_ = true;
    if (!has_input) request_stop("the input ended");
    return false;
  }
}

void TrainSession::end_hooks() {
  ending_ = true;
  for_each_hook(&Hook::end);
  if (event_writer_ != nullptr) event_writer_->close();
  if (checkpointer_ == nullptr) return;
  checkpointer_->flush();
  // Until here a failure cost nothing but the time since an older checkpoint.
  const AsyncCheckpointStatus status = checkpointer_->status();
  if (!status.last_failure) return;
  const auto latest = latest_checkpoint(config_.model_dir);
  throw Error(
      status.last_failure->code,
      fmt::format("the checkpoint of the last step, {}, is not saved: {}; put that right and "
                  "train again: {}",
                  step_, status.last_failure->message,
                  latest ? fmt::format("it resumes from {}", latest->string())
                         : std::string("there is no checkpoint to resume from")));
}

void TrainSession::check_options() const {
  if (options_.steps && options_.max_steps) {
    throw InvalidArgument("train: at most one of steps and max_steps may be set");
  }
  for (const auto& [name, value] :
       {std::pair("steps", options_.steps), std::pair("max_steps", options_.max_steps)}) {
    if (value && *value <= 0) throw InvalidArgument("train: {} must be positive: {}", name, *value);
  }
}

std::optional<std::int64_t> TrainSession::last_step_from(std::int64_t from) const {
  return options_.steps ? from + *options_.steps : options_.max_steps;
}

// It removes what an interrupted save has left, so there is one in the chief alone.
CheckpointStore TrainSession::open_store() const {
  return CheckpointStore(
      config_.model_dir,
      {.keep_checkpoint_max = config_.checkpoints.keep_checkpoint_max,
       .keep_checkpoint_every_n_hours = config_.checkpoints.keep_checkpoint_every_n_hours});
}

void TrainSession::begin() {
  check_options();
  if (options_.handle_signals) signals_.emplace();
  if (config_.is_chief()) claim_.emplace(config_.model_dir);
  last_step_ = options_.max_steps;
  prepare();
  first_step_ = step_;
  if (!is_end_given_) last_step_ = last_step_from(step_);
  if (const auto end = end_of_learning()) last_step_ = std::min(last_step_.value_or(*end), *end);
  if (done() && is_saved()) {
    if (config_.is_chief()) open_store();
    had_nothing_to_do_ = true;
    is_over_ = true;
    return;
  }
  // From here on also where the last step is made, but not known to be on the disk: what the chief
  // was given by others it saves, and others may be brought back to steps before.
  open_input();
  if (config_.is_chief()) checkpointer_ = std::make_unique<AsyncCheckpointer>(open_store());
  log_begin();
  hooks_ = hooks_of_run_(config_, options_, last_step_);
  naming_the_step([this] {
    for_each_hook(&Hook::begin);
    for_each_hook(&Hook::after_create_session);
  });
}

TrainResult TrainSession::finish() {
  if (!is_over_)
    throw Internal("a run of training is finished at step {} before it is over", step_);
  if (had_nothing_to_do_) {
    end_steps(0);
    log::info("Skipping training since max_steps has already saved.");
    return {.global_step = step_};
  }
  end_hooks();
  end_steps(done() ? 0 : signal_);
  if (step_ == first_step_ && !done()) {
    log::warning("no training step was run: the input had no batch");
  }
  TrainResult result{.global_step = step_, .steps = step_ - first_step_};
  if (result.steps > 0) {
    result.loss = loss();
    log::info("Loss for final step: {:g}.", *result.loss);
  }
  if (signal_ != 0) {
    throw Interrupted(signal_, "stopped by signal {}{} after step {}{}", signal_,
                      is_signal_of_chief_ ? " to the chief" : "", step_,
                      !config_.is_chief() ? "; checkpoints are the chief's"
                      : is_saved()        ? ", which is saved"
                                          : ", which is not saved");
  }
  return result;
}

TrainResult TrainSession::run() {
  begin();
  while (step()) continue;
  return finish();
}

}  // namespace muster
