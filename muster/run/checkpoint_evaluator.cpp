#include "muster/run/checkpoint_evaluator_internal.h"

#include <exception>
#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/data/checkpoint/checkpoint.h"

namespace muster::internal {
namespace {

/// Ends an evaluation early when the process is asked to stop: there is nothing to lose, the
/// checkpoint is on the disk.
class EndEarlyHook : public Hook {
 public:
  explicit EndEarlyHook(const std::atomic<bool>& abandoned) : abandoned_(abandoned) {}

  void before_run(Session& session) override {
    if (abandoned_) throw Cancelled("the evaluation of step {} is given up", session.global_step());
    const int signal = StopSignals::received();
    if (signal == 0) return;
    throw Interrupted(signal, "stopped by signal {} while evaluating step {}, which is saved",
                      signal, session.global_step());
  }

 private:
  const std::atomic<bool>& abandoned_;
};

}  // namespace

CheckpointEvaluator::CheckpointEvaluator(Estimator& estimator, const EvalSpec& spec,
                                         const EvaluationPace& pace)
    : estimator_(estimator), spec_(spec), pace_(pace) {
  options_ = {.steps = spec.steps, .hooks = spec.hooks, .name = spec.name};
  options_.hooks.push_back(std::make_shared<EndEarlyHook>(abandoned_));
}

std::chrono::seconds CheckpointEvaluator::time_left() const {
  if (!last_start_) return std::chrono::seconds(0);
  return std::chrono::ceil<std::chrono::seconds>(*last_start_ + spec_.throttle_secs - Clock::now());
}

bool CheckpointEvaluator::is_due(std::int64_t step) const {
  if (pace_.only_the_last || step - evaluated_step_ < pace_.min_steps) return false;
  return spec_.every_steps ? step % *spec_.every_steps == 0 : time_left().count() <= 0;
}

void CheckpointEvaluator::log_not_due(std::int64_t step) const {
  if (spec_.every_steps || time_left().count() <= 0) return;
  log::info(
      "Skip the current checkpoint eval due to throttle secs ({} secs): step={}, the next "
      "evaluation is due in {} s",
      spec_.throttle_secs.count(), step, time_left().count());
}

void CheckpointEvaluator::evaluate(const Path& checkpoint, bool is_the_final_export) {
  if (checkpoint != evaluated_) {
    last_start_ = Clock::now();
    options_.checkpoint_path = checkpoint;
    result_.metrics = estimator_.evaluate(spec_.input_fn, options_);
    result_.exports.clear();
    evaluated_ = checkpoint;
    evaluated_step_ = checkpoint_step(checkpoint).value_or(evaluated_step_);
  }
  if (is_the_final_export || pace_.exports_between) publish(checkpoint, is_the_final_export);
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
