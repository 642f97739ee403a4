#include "muster/train/engine/train_session.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/summary/event_writer.h"

namespace muster {

TrainSession::TrainSession(const RunConfig& config, const TrainOptions& options, HooksOfRun hooks,
                           TrainRunFactory make_run)
    : config_(config),
      options_(options),
      make_run_(std::move(make_run)),
      hooks_of_run_(std::move(hooks)),
      progress_(options) {}
TrainSession::~TrainSession() = default;

TrainRun& TrainSession::begun() const {
  if (run_ == nullptr) throw Internal("a run of training is looked at before it begins");
  return *run_;
}

EventWriter& TrainSession::events() {
  if (event_writer_ == nullptr) event_writer_ = std::make_unique<EventWriter>(config_.model_dir);
  return *event_writer_;
}

void TrainSession::request_stop(std::string_view reason) {
  if (!stop_reason_.empty()) return;
  stop_reason_ = reason;
  log::info("stopping after step {}: {}", progress_.step(), reason);
}

void TrainSession::begin_save() {
  const StepTimes::In saving(sampling_.times(), StepPart::kSave);
  run_->gather();
  log::info("Saving checkpoints for {} into {}/model.ckpt.", progress_.step(),
            config_.model_dir.string());
  // A run that is killed resumes from here, and the summaries of the steps before are not written
  // again: they are there before the checkpoint is. Not in this thread: a store takes its time.
  checkpoints_.begin(progress_.step(), run_->content(), [events = event_writer_.get()] {
    if (events != nullptr) events->flush();
  });
  progress_.mark_saved();
}

bool TrainSession::has_save_failed() {
  const StepTimes::In saving(sampling_.times(), StepPart::kSave);
  return checkpoints_.failure().has_value();
}

void TrainSession::save_checkpoint(const SavingListeners& listeners) {
  if (!config_.is_chief()) return;
  const bool again = progress_.is_saved();
  if (again && !(ending_ && checkpoints_.failure())) return;
  for (const auto& listener : listeners) listener->before_save(*this, progress_.step());
  begin_save();
  if (listeners.empty() && !ending_) return;
  if (ending_ && !again && checkpoints_.failure()) {
    log::warning("trying once more to save step {}, since no later one will be", progress_.step());
    begin_save();
  }
  if (has_save_failed()) return;  // Logged already; listeners hear of whole checkpoints alone.
  const StepTimes::In evaluating(sampling_.times(), StepPart::kEvaluate);
  for (const auto& listener : listeners) {
    if (listener->after_save(*this, progress_.step()))
      request_stop("a checkpoint listener asked for it");
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
    if (!progress_.done()) error.add_context(fmt::format("training step {}", progress_.step() + 1));
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

// False at the end of the input.
bool TrainSession::make_step() {
  const StepOutcome outcome = run_->make_step(*this);
  sampling_.set_step(progress_.step());
  if (outcome == StepOutcome::kRunEnded) request_stop("the run ends without this step");
  if (outcome == StepOutcome::kRolledBack) for_each_hook(&Hook::after_create_session);
  return outcome != StepOutcome::kInputEnded;
}

bool TrainSession::leave() {
  const std::optional<int> signal = run_->leave(stop_requested());
  if (signal) stop_with_chief(*signal);
  return signal.has_value();
}

// Until a step is made, which a batch that is skipped does not do, or there are no more to make.
bool TrainSession::step_or_leave() {
  for (bool made = false;;) {
    check_signal();
    bool has_input = true;
    if (!stop_requested() && !progress_.done()) {
      if (made) return true;
      for_each_hook(&Hook::before_run);
      const std::int64_t before = progress_.step();
      has_input = make_step();
      made = has_input && progress_.step() > before;
      if (made) for_each_hook(&Hook::after_run);
      if (has_input) continue;
    }
    // A task that may not leave yet may have been brought back to a step before the last.
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
  // Until here a failure cost nothing but the time since an older checkpoint.
  const auto failure = checkpoints_.failure();
  if (!failure) return;
  const auto latest = latest_checkpoint(config_.model_dir);
  throw Error(
      failure->code,
      fmt::format("the checkpoint of the last step, {}, is not saved: {}; put that right and "
                  "train again: {}",
                  progress_.step(), failure->message,
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
  run_ = make_run_({.config = config_,
                    .progress = progress_,
                    .checkpoints = checkpoints_,
                    .times = sampling_.times()});
  progress_.begin(run_->end_of_learning());
  if (progress_.done() && progress_.is_saved()) {
    if (config_.is_chief()) open_store();
    had_nothing_to_do_ = true;
    is_over_ = true;
    return;
  }
  // From here on also where the last step is made, but not known to be on the disk: what the chief
  // was given by others it saves, and others may be brought back to steps before.
  run_->open_input();
  if (config_.is_chief()) checkpoints_.open(open_store());
  run_->log_begin();
  sampling_.begin(config_, progress_.step());
  hooks_ = hooks_of_run_(config_, options_, progress_.last_step());
  naming_the_step([this] {
    for_each_hook(&Hook::begin);
    for_each_hook(&Hook::after_create_session);
  });
}

TrainResult TrainSession::finish() {
  if (!is_over_)
    throw Internal("a run of training is finished at step {} before it is over", progress_.step());
  if (had_nothing_to_do_) {
    run_->end(0);
    log::info("Skipping training since max_steps has already saved.");
    return {.global_step = progress_.step()};
  }
  end_hooks();
  run_->end(progress_.done() ? 0 : signal_);
  if (progress_.steps_made() == 0 && !progress_.done()) {
    log::warning("no training step was run: the input had no batch");
  }
  TrainResult result{.global_step = progress_.step(), .steps = progress_.steps_made()};
  if (result.steps > 0) {
    result.loss = loss();
    log::info("Loss for final step: {:g}.", *result.loss);
  }
  if (signal_ != 0) {
    throw Interrupted(signal_, "stopped by signal {}{} after step {}{}", signal_,
                      is_signal_of_chief_ ? " to the chief" : "", progress_.step(),
                      !config_.is_chief()    ? "; checkpoints are the chief's"
                      : progress_.is_saved() ? ", which is saved"
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
