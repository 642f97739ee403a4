#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"
#include "muster/run/checkpoint_evaluator_internal.h"
#include "muster/run/evaluation_dry_run_internal.h"
#include "muster/run/evaluator_task_internal.h"
#include "muster/train/engine/run_sampling.h"
#include "muster/train/estimator/run_metadata.h"

namespace muster::internal {
namespace {

using Clock = CheckpointFollower::Clock;
using Sight = CheckpointFollower::Sight;

// Between two warnings that nothing is there, as in tf.estimator.
constexpr std::chrono::seconds kWarnEvery{600};

class EvaluatorTask {
 public:
  EvaluatorTask(const RunConfig& config, CheckpointUse& use, const FollowOptions& options)
      : config_(config),
        options_(options),
        follower_(use, config_.model_dir, options.max_steps),
        at_start_(read_run_note(config_.model_dir)) {}

  void run();

 private:
  void delay_start();
  bool is_over();
  void sleep();
  void warn_of(Sight sight);
  void check_deadline(Sight sight) const;
  void log_end() const;

  const RunConfig& config_;
  const Clock::time_point start_ = Clock::now();
  const FollowOptions& options_;
  CheckpointFollower follower_;
  /// Note of a run that was there when this task began: perhaps of one before ours.
  const std::optional<RunNote> at_start_;
  std::optional<Clock::time_point> warned_;
  std::mutex mutex_;
  std::condition_variable signalled_;
  std::atomic<std::int64_t> evaluated_step_{0};
  // Last, since its thread uses the others.
  std::optional<TaskSampler> sampler_;
};

// A note of an ended run that was there before us counts when no other run begins for a while.
bool EvaluatorTask::is_over() {
  const auto note = read_run_note(config_.model_dir);
  if (!note || !note->ended) return false;
  const auto patience =
      std::max<Clock::duration>(options_.start_delay, config_.cluster.join_timeout);
  return note != at_start_ || Clock::now() - start_ >= patience;
}

// Until it is time to look again. Throws when a signal came.
void EvaluatorTask::sleep() {
  std::unique_lock lock(mutex_);
  signalled_.wait_for(lock, CheckpointFollower::kLookEvery,
                      [] { return StopSignals::received() != 0; });
  const int signal = StopSignals::received();
  if (signal != 0) throw Interrupted(signal, "stopped by signal {} between evaluations", signal);
}

void EvaluatorTask::delay_start() {
  if (options_.start_delay.count() == 0) return;
  log::info("Waiting {} secs before starting eval.", options_.start_delay.count());
  const auto is_late = [this] { return is_over() || follower_.sees_max_steps(); };
  while (Clock::now() - start_ < options_.start_delay && !is_late()) sleep();
}

void EvaluatorTask::warn_of(Sight sight) {
  const auto now = Clock::now();
  if (sight == Sight::kEvaluated) return;
  if (warned_ && now - *warned_ < kWarnEvery) return;
  const std::string folder = config_.model_dir.string();
  if (sight == Sight::kMissing) {
    log::warning(
        "Estimator is not trained yet. Will start an evaluation when a checkpoint is ready in {}.",
        folder);
  } else if (now - follower_.last_news() >= kWarnEvery) {
    log::warning(
        "No new checkpoint ready for evaluation in {} for {} s: step {} is the newest.", folder,
        std::chrono::duration_cast<std::chrono::seconds>(now - follower_.last_news()).count(),
        follower_.evaluated_step());
  } else {
    return;
  }
  warned_ = now;
}

void EvaluatorTask::check_deadline(Sight sight) const {
  const auto longest = config_.cluster.session_creation_timeout_secs;
  if (sight == Sight::kEvaluated || Clock::now() - follower_.last_news() < longest) return;
  throw Unavailable(
      "{} got no {}checkpoint for {} s (session_creation_timeout_secs), and no task said that the "
      "run has ended: its chief is lost, or writes elsewhere; {}",
      config_.model_dir.string(), sight == Sight::kMissing ? "" : "new ", longest.count(),
      follower_.evaluated_step() < 0
          ? std::string("nothing was evaluated")
          : fmt::format("step {} was evaluated last", follower_.evaluated_step()));
}

void EvaluatorTask::log_end() const {
  log::info("the evaluator ends: {}",
            follower_.is_at_max_steps()
                ? fmt::format("step {} is evaluated, which is the last", follower_.evaluated_step())
                : fmt::format("the run has ended at step {}", follower_.evaluated_step()));
}

void EvaluatorTask::run() {
  const StopSignals signals([this](int) { signalled_.notify_all(); });
  delay_start();
  if (const auto period = TaskSampler::period()) {
    sampler_.emplace(TaskSamplerOptions{.folder = sampling_folder(config_),
                                        .period = *period,
                                        .step = [this] { return evaluated_step_.load(); }});
  }
  for (;;) {
    // Asked first: what is there afterwards is then all there will be.
    const bool over = is_over();
    const Sight sight = follower_.look(over);
    evaluated_step_ = std::max<std::int64_t>(0, follower_.evaluated_step());
    if (over && sight == Sight::kMissing) {
      throw NotFound("the run has ended, and {} has no checkpoint to evaluate",
                     config_.model_dir.string());
    }
    if (sight == Sight::kEvaluated) {
      if (over || follower_.is_at_max_steps()) break;
      if (options_.goes_on && !options_.goes_on()) {
        log::info("the evaluator ends: its predicate says so of step {}",
                  follower_.evaluated_step());
        return;
      }
    }
    warn_of(sight);
    check_deadline(sight);
    sleep();
  }
  log_end();
}

}  // namespace

void follow_training(const RunConfig& config, CheckpointUse& use, const FollowOptions& options) {
  EvaluatorTask(config, use, options).run();
}

TrainAndEvaluateResult evaluate_training(
    Estimator& estimator, const TrainSpec& train_spec, const EvalSpec& eval_spec,
    const std::function<bool(const EvaluationResult&)>& goes_on) {
  rehearse_exports(estimator, eval_spec);
  CheckpointEvaluator evaluator(estimator, eval_spec);
  FollowOptions options{.start_delay = eval_spec.start_delay_secs,
                        .max_steps = train_spec.max_steps};
  if (goes_on) options.goes_on = [&] { return goes_on(evaluator.result().metrics); };
  follow_training(estimator.config(), evaluator, options);
  return evaluator.result();
}

}  // namespace muster::internal
