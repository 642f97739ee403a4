#include "muster/training/checkpoint_evaluator_internal.h"

#include <exception>
#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"

namespace muster::internal {
namespace {

/// Whoever asks the process to stop does not wait for the rest of an evaluation: there is nothing
/// to lose, the checkpoint is on the disk.
class EndOnSignalHook : public Hook {
 public:
  void before_run(Session& session) override {
    const int signal = StopSignals::received();
    if (signal == 0) return;
    throw Interrupted(signal, "stopped by signal {} while evaluating step {}, which is saved",
                      signal, session.global_step());
  }
};

}  // namespace

CheckpointEvaluator::CheckpointEvaluator(Estimator& estimator, const EvalSpec& spec)
    : estimator_(estimator), spec_(spec) {
  options_ = {.steps = spec.steps, .hooks = spec.hooks, .name = spec.name};
  options_.hooks.push_back(std::make_shared<EndOnSignalHook>());
}

bool CheckpointEvaluator::is_due(std::int64_t step) const {
  if (spec_.every_steps) return step % *spec_.every_steps == 0;
  if (!last_start_) return true;
  const auto next = *last_start_ + spec_.throttle_secs;
  const auto left = std::chrono::ceil<std::chrono::seconds>(next - Clock::now());
  if (left.count() <= 0) return true;
  log::info(
      "Skip the current checkpoint eval due to throttle secs ({} secs): step={}, the next "
      "evaluation is due in {} s",
      spec_.throttle_secs.count(), step, left.count());
  return false;
}

void CheckpointEvaluator::evaluate(const Path& checkpoint, bool is_the_final_export) {
  if (checkpoint != evaluated_) {
    last_start_ = Clock::now();
    options_.checkpoint_path = checkpoint;
    result_.metrics = estimator_.evaluate(spec_.input_fn, options_);
    result_.exports.clear();
    evaluated_ = checkpoint;
  }
  publish(checkpoint, is_the_final_export);
}

void CheckpointEvaluator::publish(const Path& checkpoint, bool is_the_final_export) {
  std::exception_ptr failure;
  for (const auto& exporter : spec_.exporters) {
    try {
      publish(*exporter, checkpoint, is_the_final_export);
    } catch (const std::exception&) {
      const Description what = describe(std::current_exception());
      const std::string message = fmt::format("exporter {} did not export {}: {}", exporter->name(),
                                              checkpoint.string(), what.message);
      if (is_the_final_export && failure == nullptr) {
        failure = std::make_exception_ptr(
            Error(what.code, message + "; the model is trained and saved, and can be exported from "
                                       "that checkpoint once this is put right"));
      } else {
        log::error("{}", message);
      }
    }
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

void CheckpointEvaluator::publish(Exporter& exporter, const Path& checkpoint,
                                  bool is_the_final_export) {
  const Path folder = estimator_.model_dir() / "export" / exporter.name();
  const auto written =
      exporter.publish(estimator_, folder, checkpoint, result_.metrics, is_the_final_export);
  if (written) result_.exports[exporter.name()] = *written;
}

}  // namespace muster::internal
