#include "muster/run/background_evaluation_internal.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/data/checkpoint/checkpoint.h"

namespace muster::internal {

BackgroundEvaluation::BackgroundEvaluation(CheckpointEvaluator& evaluator, Path model_dir,
                                           std::optional<std::int64_t> max_steps)
    : evaluator_(evaluator), model_dir_(std::move(model_dir)), max_steps_(max_steps) {}

BackgroundEvaluation::~BackgroundEvaluation() {
  if (thread_.joinable()) evaluator_.abandon();
}

void BackgroundEvaluation::begin(Session& session) {
  thread_ = std::jthread(
      [this, step = session.global_step()](const std::stop_token& stop) { run(stop, step); });
}

void BackgroundEvaluation::run(const std::stop_token& stop, std::int64_t first_step) {
  try {
    // The model that it evaluates is never the final one, whatever comes between two looks.
    CheckpointFollower follower(evaluator_, model_dir_, /*max_steps=*/{});
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const auto latest = latest_checkpoint(model_dir_);
      const std::int64_t step = latest ? checkpoint_step(*latest).value_or(-1) : -1;
      // The last one is left to the end of train_and_evaluate.
      if (max_steps_ && step >= *max_steps_) return;
      // Earlier ones are from before this run.
      if (step > first_step) follower.look(/*is_last=*/false);
      changed_.wait_for(lock, stop, CheckpointFollower::kLookEvery, [] { return false; });
    }
  } catch (...) {
    failure_ = std::current_exception();
    const Description what = describe(failure_);
    if (what.code == ErrorCode::kCancelled) return;
    log::error("no more evaluations while training goes on, since one failed: {}", what.message);
  }
}

void BackgroundEvaluation::finish() {
  if (!thread_.joinable()) return;  // There was nothing to train.
  thread_.request_stop();
  {
    const BlockingRegion reported([] { return "the evaluation of an earlier checkpoint to end"; });
    thread_.join();
  }
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

}  // namespace muster::internal
