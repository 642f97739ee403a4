#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "muster/training/train_and_evaluate.h"

namespace muster::internal {

/// Evaluates and exports checkpoints as an EvalSpec says, each at most once.
class CheckpointEvaluator {
 public:
  CheckpointEvaluator(Estimator& estimator, const EvalSpec& spec);
  CheckpointEvaluator(const CheckpointEvaluator&) = delete;
  CheckpointEvaluator& operator=(const CheckpointEvaluator&) = delete;

  /// Whether the checkpoint of this step is due while training goes on.
  bool is_due(std::int64_t step) const;
  /// Says so, if it is the time that keeps it.
  void log_not_due(std::int64_t step) const;
  /// Evaluates the checkpoint, unless it was the last one evaluated, and calls the exporters. One
  /// that fails does not keep the others from theirs: while training goes on its error is logged;
  /// in the end the first one is thrown, naming exporter and checkpoint.
  void evaluate(const Path& checkpoint, bool is_the_final_export);
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
  EvaluateOptions options_;
  std::atomic<bool> abandoned_ = false;
  Path evaluated_;
  std::optional<Clock::time_point> last_start_;
  TrainAndEvaluateResult result_;
};

}  // namespace muster::internal
