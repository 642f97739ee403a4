#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "muster/train/engine/hook.h"
#include "muster/train/hooks/second_or_step_timer.h"

namespace muster {

struct CheckpointSaverOptions {
  /// Exactly one of the two is set.
  std::optional<std::int64_t> save_steps{};
  std::optional<Seconds> save_secs{};
  /// Told of every checkpoint that this hook saves.
  SavingListeners listeners{};
  ClockFn clock = std::chrono::steady_clock::now;
};

/// Saves a checkpoint when a session is created (also after a roll-back), then by its period, and
/// at the end if the last step is not saved yet or that has failed. In a run after which a trial
/// pauses (platform/cluster/trial_pause.h) the first one is left out: it would cost more than its
/// few steps. Each one leaves a mark in the event file. Only in training, and only on the chief.
/// May serve several runs, one after another.
class CheckpointSaverHook : public Hook {
 public:
  /// Throws InvalidArgument on a period that is no period, or an empty listener.
  explicit CheckpointSaverHook(CheckpointSaverOptions options);

  /// Those who are told of the next run beside the hook's own listeners; those of the run before
  /// go. Only before begin(). Throws InvalidArgument on an empty one.
  void set_run_listeners(const SavingListeners& listeners);

  void begin(Session& session) override;
  void after_create_session(Session& session) override;
  void after_run(Session& session) override;
  void end(Session& session) override;

 private:
  void save(Session& session);

  /// The hook's own, then the run's.
  SavingListeners listeners_;
  std::size_t own_listeners_ = 0;
  SecondOrStepTimer timer_;
};

struct SummarySaverOptions {
  /// Exactly one of the two is set.
  std::optional<std::int64_t> save_steps{};
  std::optional<Seconds> save_secs{};
  /// How many pictures of a batch are written.
  std::int64_t max_images = 3;
  ClockFn clock = std::chrono::steady_clock::now;
};

/// Writes what the model put into its summaries to the event file, at the first step and then by
/// its period, with two things of its own where the model has none of that name: `loss`, and
/// `learning_rate` (`learning_rate/<prefix>` where there are several optimizers).
///
/// The first picture of a batch is `<tag>/image`, or `<tag>/image/0` and so on when there are
/// several. Pictures that are not uint8 are scaled as normalize_image() does.
class SummarySaverHook : public Hook {
 public:
  /// Throws InvalidArgument on a period that is no period, or max_images below 1.
  explicit SummarySaverHook(SummarySaverOptions options);

  void begin(Session& session) override;
  void after_create_session(Session& session) override;
  /// Throws InvalidArgument, naming the tag, on a scalar of several elements or pictures of another
  /// shape than [n, height, width, channels].
  void after_run(Session& session) override;
  void end(Session& session) override;

 private:
  void write_summaries(Session& session) const;

  std::int64_t max_images_;
  SecondOrStepTimer timer_;
  bool started_ = false;
};

}  // namespace muster
