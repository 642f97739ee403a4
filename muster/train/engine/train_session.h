#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/folder_claim.h"
#include "muster/base/signals.h"
#include "muster/train/engine/run_sampling.h"
#include "muster/train/engine/train_run.h"

namespace muster {

/// A run of training, whatever it is that learns: hooks, signals, events, checkpoints, and when it
/// is over. What learns is a TrainRun, which begin() makes:
///
///   session.begin();
///   while (session.step()) continue;
///   result = session.finish();
///
/// Used once, by one thread. What one of the three throws ends the run.
class TrainSession final : public Session {
 public:
  TrainSession(const RunConfig& config, const TrainOptions& options, HooksOfRun hooks,
               TrainRunFactory make_run);
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
  std::int64_t global_step() const override { return progress_.step(); }
  const Path& output_dir() const override { return config_.model_dir; }
  double loss() override { return begun().loss(); }
  const EstimatorSpec& spec() const override { return begun().spec(); }
  std::int64_t step_examples() const override { return begun().step_examples(); }
  std::map<std::string, double> learning_rates() const override { return begun().learning_rates(); }
  std::vector<NamedTensor> variables() const override { return begun().variables(); }
  EventWriter& events() override;
  void save_checkpoint(const SavingListeners& listeners) override;
  void request_stop(std::string_view reason) override;
  bool stop_requested() const override { return !stop_reason_.empty(); }

 private:
  TrainRun& begun() const;
  void check_options() const;
  void check_signal();
  void stop_with_chief(int signal);
  void for_each_hook(void (Hook::*call)(Session&));
  CheckpointStore open_store() const;
  void begin_save();
  /// Waits until the last save is written.
  bool has_save_failed();
  bool make_step();
  bool leave();
  bool step_or_leave();
  void end_hooks();
  template <typename Work>
  auto naming_the_step(const Work& work);

  const RunConfig config_;
  const TrainOptions options_;
  const TrainRunFactory make_run_;
  std::optional<StopSignals> signals_;
  /// On a shared disk the folder is the chief's.
  std::optional<FolderClaim> claim_;
  const HooksOfRun hooks_of_run_;
  Hooks hooks_;
  std::unique_ptr<EventWriter> event_writer_;
  RunProgress progress_;
  /// The last step was made, and saved, before this run began.
  bool had_nothing_to_do_ = false;
  bool is_over_ = false;
  /// The steps are over: what is not saved now is lost.
  bool ending_ = false;
  std::string stop_reason_;
  int signal_ = 0;
  bool is_signal_of_chief_ = false;
  CheckpointWriter checkpoints_;
  RunSampling sampling_;
  /// Null before begin(). Last, since it refers to what is above.
  std::unique_ptr<TrainRun> run_;
};

}  // namespace muster
