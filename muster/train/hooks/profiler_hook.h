#pragma once

#include <memory>

#include "muster/train/engine/hook.h"
#include "muster/train/hooks/second_or_step_timer.h"

namespace muster {

class OpTrace;

struct ProfilerOptions {
  /// Exactly one of the two is set.
  std::optional<std::int64_t> save_steps{};
  std::optional<Seconds> save_secs{};
  /// Where the traces go; empty: the output folder of the run.
  Path output_dir{};
  /// Arrows from forward operators to their backward functions.
  bool show_dataflow = true;
  ClockFn clock = std::chrono::steady_clock::now;
};

/// Writes what a step spends its time on to `timeline-<step>.json`, in Chrome's trace format: the
/// second step that it sees, then by its period. Never the first, which is busy setting things up.
/// A trace that cannot be written is logged as an error, and training continues.
class ProfilerHook : public Hook {
 public:
  /// Throws InvalidArgument on a period that is no period.
  explicit ProfilerHook(ProfilerOptions options);
  ~ProfilerHook() override;

  void after_create_session(Session& session) override;
  void before_run(Session& session) override;
  void after_run(Session& session) override;

 private:
  ProfilerOptions options_;
  SecondOrStepTimer timer_;
  bool first_step_ = true;
  std::unique_ptr<OpTrace> trace_;
};

}  // namespace muster
