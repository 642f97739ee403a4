#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/train/engine/hook.h"
#include "muster/train/engine/input.h"
#include "muster/train/engine/run_config.h"
#include "muster/train/engine/train_options.h"
#include "muster/train/estimator/specs.h"

namespace muster {

struct EvaluateOptions {
  /// Batches; not set: all of the input.
  std::optional<std::int64_t> steps{};
  Hooks hooks{};
  /// A checkpoint prefix; empty takes the latest.
  Path checkpoint_path{};
  /// Results go to model_dir/eval_NAME.
  std::string name{};
};

struct PredictOptions {
  /// Only these predictions; empty: all.
  std::vector<std::string> predict_keys{};
  Path checkpoint_path{};
  /// One example at a time; else whole batches.
  bool yield_single_examples = true;
};

/// A pass of predictions over an input. Belongs to one thread.
class Predictions {
 public:
  Predictions(Predictions&&) noexcept;
  Predictions& operator=(Predictions&&) noexcept;
  ~Predictions();

  /// The next example's predictions (each a column of one row), or a batch's; nothing at the end of
  /// the input.
  std::optional<Features> next();

 private:
  friend class Estimator;
  struct Impl;
  explicit Predictions(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class Trainer;

/// Trains, evaluates and predicts with one model in one model folder. Copies share everything.
/// Calls come from one thread at a time.
class Estimator {
 public:
  /// Throws InvalidArgument on options or a configuration that cannot work. Without
  /// config.model_dir a temporary folder is made, with a warning.
  Estimator(EstimatorOptions options, RunConfig config);
  ~Estimator();
  Estimator(const Estimator&);
  Estimator& operator=(const Estimator&);

  const RunConfig& config() const;
  const Path& model_dir() const;
  const EstimatorOptions& options() const;

  /// Trains from the latest checkpoint, or from the beginning, until the steps are done, the input
  /// ends or a hook asks for it. Resuming is exact: the result is that of a run that was never
  /// interrupted.
  ///
  /// Throws InvalidArgument for both steps and max_steps or neither positive; DataLoss when
  /// checkpoints are there and none is whole; Interrupted after a signal, with the last step saved.
  TrainResult train(const InputFn& input_fn, const TrainOptions& options = {});

  /// The same as a run that the caller steps (trainer.h), before its begin(). Throws Unimplemented
  /// for boosted trees.
  std::unique_ptr<Trainer> trainer(const InputFn& input_fn, const TrainOptions& options = {});

  /// Metrics over the input, with `loss` and `global_step`; also written to eval[_name]/ as events
  /// and JSON. Throws NotFound when there is no checkpoint.
  EvaluationResult evaluate(const InputFn& input_fn, const EvaluateOptions& options = {});

  /// The same of the values that a run of training holds now, without a checkpoint: what
  /// InMemoryEvaluatorHook does. Throws InvalidArgument when the options name a checkpoint,
  /// NotFound when the run trains another model, Unimplemented for boosted trees.
  EvaluationResult evaluate(const Session& training, const InputFn& input_fn,
                            const EvaluateOptions& options = {});

  /// Throws NotFound when there is no checkpoint; InvalidArgument, at the first batch, for unknown
  /// predict_keys.
  Predictions predict(const InputFn& input_fn, const PredictOptions& options = {});

  std::optional<Path> latest_checkpoint() const;
  /// model_dir/eval, or model_dir/eval_NAME.
  Path eval_dir(std::string_view name = {}) const;
  /// Variables of the latest checkpoint. Throw NotFound when there is none, or no such variable.
  std::vector<std::string> get_variable_names() const;
  at::Tensor get_variable_value(const std::string& name) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
