#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/run/run_record_internal.h"
#include "muster/run/training_task_internal.h"

namespace muster::internal {
namespace {

constexpr std::chrono::milliseconds kAskEvery{500};

}  // namespace

TaskInLog::TaskInLog(std::string task) : before_(log::task()) { log::set_task(std::move(task)); }
TaskInLog::~TaskInLog() { log::set_task(before_); }

RunOnDisk::RunOnDisk(const RunConfig& config) : model_dir_(config.model_dir) {
  if (!config.is_chief()) return;
  try_to_record(model_dir_, [&] {
    const RunRecord record = record_of_this_process(config);
    add_run_record(model_dir_, record);
    recorded_ = record.began_ns;
  });
  if (config.cluster.task.cluster.empty()) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  note_.emplace();
  note_->began_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  write_run_note(model_dir_, *note_);
}

void RunOnDisk::end() {
  if (!note_ && !recorded_) return;
  // With save_checkpoints = false the run may have ended elsewhere, but no more of it is visible.
  const auto latest = latest_checkpoint(model_dir_);
  const std::int64_t step = latest ? checkpoint_step(*latest).value_or(0) : 0;
  if (recorded_) {
    try_to_record(model_dir_, [&] { end_run_record(model_dir_, *recorded_, step); });
  }
  if (!note_) return;
  note_->ended = true;
  note_->global_step = step;
  write_run_note(model_dir_, *note_);
}

TrainResult train_as_task(Estimator& estimator, const InputFn& input_fn,
                          const TrainOptions& options) {
  RunOnDisk on_disk(estimator.config());
  const TrainResult result = estimator.train(input_fn, options);
  on_disk.end();
  return result;
}

void pause_for(std::chrono::seconds span, const std::string& reason,
               const std::function<bool()>& over) {
  if (span.count() <= 0) return;
  log::info("waiting at most {} s for {}", span.count(), reason);
  std::mutex mutex;
  std::condition_variable signalled;
  const StopSignals signals([&signalled](int) { signalled.notify_all(); });
  const auto is_stopped = [] { return StopSignals::received() != 0; };
  const auto end = Deadline::after(span);
  const WaitReason why = [&reason] { return reason; };
  std::unique_lock lock(mutex);
  while (!end.expired() && !is_stopped() && !(over && over())) {
    const auto next = std::min(end.time(), Deadline::Clock::now() + kAskEvery);
    wait_until(signalled, lock, Deadline::at(next), why, is_stopped);
  }
  if (const int signal = StopSignals::received(); signal != 0) {
    throw Interrupted(signal, "stopped by signal {} while waiting for {}", signal, reason);
  }
}

}  // namespace muster::internal
