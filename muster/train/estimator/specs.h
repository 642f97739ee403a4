#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/train/engine/hook.h"
#include "muster/train/engine/input.h"

namespace muster {

class Estimator;

/// Training options of train_and_evaluate.
struct TrainSpec {
  InputFn input_fn{};
  /// Ends at this global step; not set: when the input ends, or never.
  std::optional<std::int64_t> max_steps{};
  /// So many passes over the input, which then does not repeat() by itself: see TrainOptions.
  std::optional<std::int64_t> max_epochs{};
  Hooks hooks{};

  /// Throws InvalidArgument, naming the field.
  void check() const;
};

/// Publishes a trained model after an evaluation. export/ implements it.
class Exporter {
 public:
  virtual ~Exporter() = default;

  /// Names the folder under model_dir/export.
  virtual const std::string& name() const = 0;
  /// Called before the first step of a training: throws what publish() would throw for this model,
  /// whatever its values will be.
  virtual void rehearse(const Estimator& estimator) const { (void)estimator; }
  /// Exports `checkpoint` into `export_path`, or does nothing if its rule says so; what it wrote,
  /// if anything.
  virtual std::optional<Path> publish(const Estimator& estimator, const Path& export_path,
                                      const Path& checkpoint, const EvaluationResult& result,
                                      bool is_the_final_export) = 0;
};

/// Evaluation options of train_and_evaluate.
struct EvalSpec {
  InputFn input_fn{};
  /// Batches of one evaluation; not set: all of the input.
  std::optional<std::int64_t> steps = 100;
  /// Its results go to model_dir/eval_NAME; empty: model_dir/eval.
  std::string name{};
  Hooks hooks{};
  std::vector<std::shared_ptr<Exporter>> exporters{};
  /// An evaluator waits this long before the first evaluation; one process does not.
  std::chrono::seconds start_delay_secs{120};
  /// At least this long between two evaluations; the last checkpoint is always evaluated.
  std::chrono::seconds throttle_secs{600};
  /// Evaluates each checkpoint that is saved at a multiple of this step instead, whatever the time.
  std::optional<std::int64_t> every_steps{};

  /// Throws InvalidArgument, naming the field.
  void check() const;
};

}  // namespace muster
