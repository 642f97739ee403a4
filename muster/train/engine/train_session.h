#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/folder_claim.h"
#include "muster/base/signals.h"
#include "muster/data/checkpoint/async_checkpointer.h"
#include "muster/data/checkpoint/tensor.h"
#include "muster/train/engine/train_options.h"

namespace muster {

/// A run of training, whatever it is that learns: hooks, signals, events, checkpoints, and when it
/// is over. Those who learn derive from it and say what a step is. Whoever runs it steps it:
///
///   session.begin();
///   while (session.step()) continue;
///   result = session.finish();
///
/// Used once, by one thread. What one of the three throws ends the run.
class TrainSession : public Session {
 public:
  TrainSession(const RunConfig& config, const TrainOptions& options, HooksOfRun hooks);
  ~TrainSession() override;

  /// Restores the latest checkpoint and calls the hooks that come before the first step. Takes the
  /// model folder and, if the options say so, signals, until this is destroyed.
  void begin();
  /// Makes one step, and what hooks do around it. Returns whether there are more to make; a run
  /// that has none to begin with makes none.
  bool step();
  /// Whether there are no more steps to make.
  bool is_over() const { return is_over_; }
  /// Saves the last step. Throws Interrupted when a signal ended the run.
  TrainResult finish();
  /// All of it.
  TrainResult run();

  Mode mode() const override { return Mode::kTrain; }
  const RunConfig& config() const override { return config_; }
  std::int64_t global_step() const override { return step_; }
  const Path& output_dir() const override { return config_.model_dir; }
  EventWriter& events() override;
  void save_checkpoint(const SavingListeners& listeners) override;
  void request_stop(std::string_view reason) override;
  bool stop_requested() const override { return !stop_reason_.empty(); }

 protected:
  /// What a checkpoint is written from.
  struct Content {
    std::vector<TensorView> tensors{};
    std::string state_json{};
    /// Keeps what the views see.
    std::shared_ptr<const void> owner{};
    /// What others write of it; null where all of it is here.
    std::shared_ptr<CheckpointParts> parts{};
  };

  /// Makes what learns, with the values of the latest checkpoint if there is one: then it calls
  /// resume_at().
  virtual void prepare() = 0;
  /// The step at which there is nothing more to learn, if there is such a thing.
  virtual std::optional<std::int64_t> end_of_learning() const { return std::nullopt; }
  /// Called once, if there are steps to make.
  virtual void open_input() = 0;
  /// Logs what is about to be trained.
  virtual void log_begin() const = 0;
  /// Makes one update and calls advance(), or skips a bad batch. Calls wait_until_copied()
  /// before it changes what content() showed. False at the end of the input.
  virtual bool make_step() = 0;
  /// Called before content(): brings here what a checkpoint needs and this process does not have.
  /// The step may be another afterwards.
  virtual void gather() {}
  virtual Content content() const = 0;
  /// Called when there are no more steps to make, before the last checkpoint is saved. False when
  /// this process cannot leave the run yet: it then makes the steps that are to be made, if any,
  /// and asks again.
  virtual bool leave() { return true; }
  /// Called after the last checkpoint is saved; `signal` is what stopped the run before its last
  /// step, or 0.
  virtual void end_steps(int /*signal*/) {}

  /// The values are now those of a checkpoint.
  void resume_at(std::int64_t step);
  void advance() { ++step_; }
  /// The values are now those of another process of the run.
  void jump_to(std::int64_t step) { step_ = step; }
  /// Where the run would end by this process's options if it began at `from`; nothing: with the
  /// input.
  std::optional<std::int64_t> last_step_from(std::int64_t from) const;
  /// Whether the last step was named, and not how many there are to be.
  bool has_last_step() const { return options_.max_steps.has_value(); }
  /// In a cluster the chief says at which step the run ends, if at any.
  void end_at(std::optional<std::int64_t> last_step) {
    last_step_ = last_step;
    is_end_given_ = true;
  }
  /// A signal that stopped the chief stops this process as if it had come here.
  void stop_with_chief(int signal);
  bool saved_any() const { return saved_step_ >= 0; }
  /// Whether this process knows a checkpoint of the step that it is at.
  bool is_saved() const { return saved_step_ == step_; }
  /// Whether the last step is made.
  bool done() const { return last_step_ && step_ >= *last_step_; }
  void wait_until_copied();
  /// Returns when the last save is written or has failed.
  void flush_checkpoints();
  void for_each_hook(void (Hook::*call)(Session&));

 private:
  void check_options() const;
  void check_signal();
  CheckpointStore open_store() const;
  void begin_save();
  bool save_failed();
  bool step_or_leave();
  void end_hooks();
  template <typename Work>
  auto naming_the_step(const Work& work);

  RunConfig config_;
  const TrainOptions options_;
  std::optional<StopSignals> signals_;
  /// On a shared disk the folder is the chief's.
  std::optional<FolderClaim> claim_;
  const HooksOfRun hooks_of_run_;
  Hooks hooks_;
  std::unique_ptr<EventWriter> event_writer_;
  std::int64_t step_ = 0;
  /// Where this run began.
  std::int64_t first_step_ = 0;
  /// The last step was made, and saved, before this run began.
  bool had_nothing_to_do_ = false;
  bool is_over_ = false;
  std::optional<std::int64_t> last_step_;
  bool is_end_given_ = false;
  std::int64_t saved_step_ = -1;
  /// The steps are over: what is not saved now is lost.
  bool ending_ = false;
  std::string stop_reason_;
  int signal_ = 0;
  bool is_signal_of_chief_ = false;
  /// What the checkpointer still copies while the next forward runs; the update waits for it.
  std::optional<Content> being_copied_;
  // After what it may still be copying from, so that it is destroyed first.
  std::unique_ptr<AsyncCheckpointer> checkpointer_;
};

}  // namespace muster
