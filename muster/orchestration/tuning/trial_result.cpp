#include "muster/orchestration/tuning/trial_result_internal.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/program.h"
#include "muster/orchestration/tuning/goals.h"
#include "muster/orchestration/tuning/trial_folder_internal.h"
#include "muster/orchestration/tuning/trial_metric.h"

namespace muster::tuning {
namespace {

void find_metrics(Trial& trial, const Trial* parent, const HyperparameterSpec& spec,
                  const StudyStore& store) {
  TrialMetrics metrics =
      read_trial_metrics(store.folder_of(trial), store.metric_file_of(trial), spec.metric_tag);
  trial.measurements = std::move(metrics.measurements);
  trial.other_metrics = std::move(metrics.others);
  if (trial.measurements.empty()) {
    std::vector<std::string> seen;
    seen.reserve(trial.other_metrics.size());
    for (const auto& [name, value] : trial.other_metrics) seen.push_back(name);
    trial.error_message =
        fmt::format("wrote no metric {}; what it wrote: {}", spec.metric_tag, listed(seen));
    return;
  }
  const Measurement& last = trial.measurements.back();
  if (!std::isfinite(last.value)) {
    trial.error_message = fmt::format("the metric {} is {} at step {}: no value to compare",
                                      spec.metric_tag, last.value, last.step);
    return;
  }
  // The parent's event files are among its own.
  if (parent != nullptr) {
    const auto& before = parent->final_metric;
    if (before && before->step > 0 && last.step <= before->step) {
      trial.error_message =
          fmt::format("wrote no metric {} behind step {}, from which it went on as trial {} ended",
                      spec.metric_tag, before->step, parent->id);
      return;
    }
  }
  for (const std::string& tag : other_tags(spec)) {
    const auto value = metric_value(spec, trial, tag);
    if (value && std::isfinite(*value)) continue;
    trial.error_message = value ? fmt::format("the metric {} is {}", tag, *value)
                                : fmt::format("wrote no metric {}", tag);
    return;
  }
  trial.final_metric = last;
  trial.state = TrialState::kSucceeded;
}

}  // namespace

std::string words_of(const process::EndOfProcess& end) {
  return end.killed ? fmt::format("was killed by signal {}", end.status - kStatusOfSignals)
                    : fmt::format("exited with status {}", end.status);
}

void take_metrics(Trial& trial, const Trial* parent, const HyperparameterSpec& spec,
                  const StudyStore& store) {
  try {
    find_metrics(trial, parent, spec, store);
  } catch (const Error& error) {
    trial.error_message = error.what();
  }
}

std::string failure_of(const Trial& trial, const process::EndOfProcess& end,
                       const StudyStore& store) {
  const std::string said = last_words_of(store.log_of(trial));
  return fmt::format("{}{}{}; its lines are in {}", words_of(end), said.empty() ? "" : ": ", said,
                     store.log_of(trial).string());
}

}  // namespace muster::tuning
