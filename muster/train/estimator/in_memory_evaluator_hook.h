#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/train/estimator/estimator.h"
#include "muster/train/hooks/second_or_step_timer.h"

namespace muster {

struct InMemoryEvaluatorOptions {
  /// Batches; not set: all of the input.
  std::optional<std::int64_t> steps{};
  /// Hooks of the evaluations.
  Hooks hooks{};
  /// Results go to model_dir/eval_NAME.
  std::string name{};
  /// Iterations of this process from one evaluation to the next.
  std::int64_t every_n_iter = 100;
};

/// Evaluates what is being trained without a checkpoint: before the first step, every so many
/// iterations, and at the end unless that has just been done. The training waits meanwhile and
/// ends with the same weights as without the hook. For a process that trains alone.
class InMemoryEvaluatorHook : public Hook {
 public:
  /// `estimator` is the one that trains. Throws InvalidArgument on an empty input_fn, a period or
  /// steps that are not positive, or an estimator that is a task of a cluster.
  InMemoryEvaluatorHook(Estimator estimator, InputFn input_fn,
                        InMemoryEvaluatorOptions options = {});

  void begin(Session& session) override;
  void after_create_session(Session& session) override;
  void after_run(Session& session) override;
  void end(Session& session) override;

 private:
  void evaluate(Session& session);

  Estimator estimator_;
  InputFn input_fn_;
  EvaluateOptions options_;
  SecondOrStepTimer timer_;
  std::int64_t iterations_ = 0;
};

}  // namespace muster
