#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "muster/run/checkpoint_follower_internal.h"
#include "muster/run/train_and_evaluate.h"

namespace muster::internal {

/// When checkpoints are evaluated and exported, beside what an EvalSpec says.
struct EvaluationPace {
  /// So many steps are between two that are evaluated, at least.
  std::int64_t min_steps = 1;
  bool only_the_last = false;
  /// Whether exporters are called while training continues.
  bool exports_between = true;
};

/// Evaluates and exports checkpoints as an EvalSpec says, each at most once.
class CheckpointEvaluator : public CheckpointUse {
 public:
  CheckpointEvaluator(Estimator& estimator, const EvalSpec& spec, const EvaluationPace& pace = {});
  CheckpointEvaluator(const CheckpointEvaluator&) = delete;
  CheckpointEvaluator& operator=(const CheckpointEvaluator&) = delete;

  bool is_due(std::int64_t step) const override;
  void log_not_due(std::int64_t step) const override;
  /// Evaluates the checkpoint, unless it was the last one evaluated, and calls the exporters, if
  /// the pace has them called. One that fails does not keep the others from theirs: while training
  /// goes on its error is logged; in the end the first one is thrown, naming exporter and
  /// checkpoint.
  void evaluate(const Path& checkpoint, bool is_the_final_export) override;
  /// Ends an evaluation that another thread is in, with Cancelled.
  void abandon() { abandoned_ = true; }

  const TrainAndEvaluateResult& result() const { return result_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::chrono::seconds time_left() const;
  void publish(const Path& checkpoint, bool is_the_final_export);
  void publish(Exporter& exporter, const Path& checkpoint, bool is_the_final_export);

  Estimator& estimator_;
  const EvalSpec& spec_;
  const EvaluationPace pace_;
  EvaluateOptions options_;
  std::atomic<bool> abandoned_ = false;
  Path evaluated_;
  std::int64_t evaluated_step_ = 0;
  std::optional<Clock::time_point> last_start_;
  TrainAndEvaluateResult result_;
};

}  // namespace muster::internal
