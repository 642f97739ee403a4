#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/orchestration/jobs/job.h"

namespace muster::jobs {

/// How far a training has come, as its event files and the last lines of its chief say: the first
/// are written minutes apart.
struct Progress {
  std::int64_t step = 0;
  std::optional<double> loss{};
  /// The step that the loss is of, which may be one long before `step`.
  std::int64_t loss_step = 0;
  std::optional<double> steps_per_second{};
  /// Where the program's arguments say how many steps there will be.
  std::optional<std::int64_t> max_steps{};

  /// From this step to the end, with evaluations and saves, where enough steps were seen to tell.
  std::optional<double> seconds_to_end{};

  /// How long it will take: as long as it took so far, or at the last rate where that is not known.
  std::optional<double> seconds_left() const;

  /// "24.5", and " at step 101" after it where that is not `step`; empty without a loss.
  std::string loss_text() const;

  bool operator==(const Progress&) const = default;
};

/// Progress of a job whose files are in `folder`. Nothing if neither event files of its job-dir (a
/// relative one is below the job's working directory) nor its log report any steps.
std::optional<Progress> progress_of(const Job& job, const Path& folder);

/// Takes what a line of a log tells: "loss = 24.5, step = 101", "global_step/sec: 97.2", "Saving
/// checkpoints for 200 into", "Loss for final step: 24.5.".
void take_line(std::string_view line, std::optional<Progress>& progress);

/// The progress as lines of YAML, the key `progress` among them.
std::string to_yaml(const Progress& progress);

/// N of --train-steps N, --max-steps=N and the like.
std::optional<std::int64_t> max_steps_of(const std::vector<std::string>& args);

}  // namespace muster::jobs
