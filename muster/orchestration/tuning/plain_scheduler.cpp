#include "muster/orchestration/tuning/trial_scheduler_internal.h"

namespace muster::tuning {
namespace {

class PlainScheduler final : public TrialScheduler {
 public:
  explicit PlainScheduler(const TrialSuggester& suggester)
      : suggester_(suggester),
        most_trials_(static_cast<std::size_t>(suggester.spec().max_trials)) {}

  std::optional<TrialRun> next(const StudyHistory& history, std::size_t /*known*/) const override {
    if (history.trials.size() >= most_trials_) return std::nullopt;
    return TrialRun{.trial = history.trials.size()};
  }

  std::optional<Trial> new_trial(const StudyHistory& history, std::size_t known) override {
    auto trial = suggester_.suggest(history, known);
    if (!trial) most_trials_ = history.trials.size();
    return trial;
  }

 private:
  const TrialSuggester& suggester_;
  std::size_t most_trials_;
};

}  // namespace

std::unique_ptr<TrialScheduler> make_plain_scheduler(const TrialSuggester& suggester) {
  return std::make_unique<PlainScheduler>(suggester);
}

}  // namespace muster::tuning
