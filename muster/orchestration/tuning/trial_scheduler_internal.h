#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/orchestration/tuning/halving.h"
#include "muster/orchestration/tuning/study_history_internal.h"
#include "muster/orchestration/tuning/trial_suggester_internal.h"

namespace muster::tuning {

/// `--NAME=STEPS` of the program.
struct StepLimit {
  std::string flag{};
  std::int64_t steps = 0;
};

/// Decides what a free slot of a study trains next: a new trial, or one that continues. Decisions
/// are functions of the history, the specification and the seed alone: a study that was killed
/// comes to the same ones.
class TrialScheduler {
 public:
  virtual ~TrialScheduler() = default;

  /// The runs of trials that were read from a study's folder, in the order in which they began.
  /// Throws DataLoss for trials that are not of this schedule.
  virtual std::vector<BegunRun> runs_of(std::span<const Trial> trials) const;

  /// The next run, chosen from the results of the first `known` runs; its loss is not set. Nothing
  /// where more results have to be awaited, and at the end.
  virtual std::optional<TrialRun> next(const StudyHistory& history, std::size_t known) const = 0;

  /// A new trial as next() has asked for, without number and time. Nothing where there is none,
  /// which ends the study: next() asks for no other then.
  virtual std::optional<Trial> new_trial(const StudyHistory& history, std::size_t known) = 0;

  /// Notes in the trial that its run up to a rung begins, as run `number` of the study, from 1.
  virtual void begin(Trial& trial, std::size_t rung, std::int64_t number) const;
  /// Notes how a run of the trial ended that has a final metric.
  virtual void finish(Trial& trial) const;

  /// Step up to which the program is told to train; nothing where its own arguments say it.
  virtual std::optional<StepLimit> step_limit(const Trial& trial) const;
  /// Whether another run resumes from where this one ends.
  virtual bool will_pause(const Trial& trial) const;
};

/// Trial after trial, each to its end.
std::unique_ptr<TrialScheduler> make_plain_scheduler(const TrialSuggester& suggester);
/// ASHA and HYPERBAND.
std::unique_ptr<TrialScheduler> make_halving_scheduler(const TrialSuggester& suggester,
                                                       const std::vector<std::string>& command);
/// The rounds of population-based training.
std::unique_ptr<TrialScheduler> make_population_scheduler(const TrialSuggester& suggester,
                                                          const std::vector<std::string>& command);

/// The scheduler that the specification asks for; `suggester` must outlive it. Throws
/// InvalidArgument where the command lacks the flag that says how long a whole trial is.
std::unique_ptr<TrialScheduler> make_scheduler(const TrialSuggester& suggester,
                                               const std::vector<std::string>& command);

}  // namespace muster::tuning
