#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/run_metadata.h"

namespace muster::internal {

/// Lines of the log carry the task's name while this lives.
class TaskInLog {
 public:
  explicit TaskInLog(std::string task);
  ~TaskInLog();
  TaskInLog(const TaskInLog&) = delete;
  TaskInLog& operator=(const TaskInLog&) = delete;

 private:
  const std::string before_;
};

/// Files about a run in its model folder. By its note an evaluator knows when it is over:
/// the chief of a cluster says so, with the last step that is saved, also a chief without other
/// tasks, since an evaluator may follow it. Its record, which a process alone leaves too, says what
/// it was made of.
class RunOnDisk {
 public:
  /// Says that a run begins.
  explicit RunOnDisk(const RunConfig& config);
  /// Says that nothing more is trained.
  void end();

 private:
  const Path model_dir_;
  /// Not set in a task that says nothing.
  std::optional<RunNote> note_;
  std::optional<std::int64_t> recorded_;
};

/// Trains as one task of a run, and tells evaluators of the run's end.
TrainResult train_as_task(Estimator& estimator, const InputFn& input_fn,
                          const TrainOptions& options);

/// Waits so long, or until `over` says that it need not, which is asked twice a second. `reason`
/// says for what, in the log and when it takes long. Throws Interrupted when a signal comes.
void pause_for(std::chrono::seconds span, const std::string& reason,
               const std::function<bool()>& over = {});

}  // namespace muster::internal
