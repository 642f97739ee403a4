#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "muster/run/checkpoint_evaluator_internal.h"
#include "muster/train/engine/hook.h"

namespace muster::internal {

/// Evaluates checkpoints in a thread beside the training of this process, so that the other tasks
/// of a cluster do not wait for it. The checkpoint that a run begins with and that of max_steps are
/// left to others.
class BackgroundEvaluation : public Hook {
 public:
  /// The evaluator must outlive it, and must not be used elsewhere from the begin of the training
  /// to finish().
  BackgroundEvaluation(CheckpointEvaluator& evaluator, Path model_dir,
                       std::optional<std::int64_t> max_steps);
  /// Gives up an evaluation that is under way.
  ~BackgroundEvaluation() override;

  void begin(Session& session) override;
  /// Waits for an evaluation that is under way, and throws what went wrong with one.
  void finish();

 private:
  void run(const std::stop_token& stop, std::int64_t first_step);

  CheckpointEvaluator& evaluator_;
  const Path model_dir_;
  const std::optional<std::int64_t> max_steps_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Last: it uses all of the above.
  std::jthread thread_;
};

}  // namespace muster::internal
