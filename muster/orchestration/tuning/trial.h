#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/orchestration/tuning/search_space.h"

namespace muster::tuning {

/// The metric at one step of training.
struct Measurement {
  std::int64_t step = 0;
  double value = 0;

  bool operator==(const Measurement&) const = default;
};

enum class TrialState {
  kRunning,
  /// Has come to a rung of successive halving, and may resume from its checkpoint.
  kPaused,
  kSucceeded,
  kFailed,
};

/// "SUCCEEDED".
std::string_view name_of(TrialState state);

/// A stretch of training of a trial under successive halving.
struct Rung {
  /// Its place among all of the study, from 1, in the order in which they began.
  std::int64_t run = 0;
  /// Step up to which the program was told to train.
  std::int64_t max_steps = 0;
  /// At its end.
  std::optional<Measurement> metric{};
};

/// One run of the program with values of its own.
struct Trial {
  /// From 1.
  std::int64_t id = 0;
  TrialState state = TrialState::kRunning;
  Values values{};
  /// Last metric of a trial that succeeded or is paused.
  std::optional<Measurement> final_metric{};
  /// The trial whose folder this one began with a copy of, and from whose checkpoint it went on.
  std::optional<std::int64_t> parent{};
  /// Step up to which the program of a population's trial was told to train.
  std::int64_t max_steps = 0;
  /// Rungs of studies with successive halving, by steps.
  std::vector<Rung> rungs{};
  /// All that were found, by step.
  std::vector<Measurement> measurements{};
  /// The last value of every other scalar, by `folder/tag`.
  std::map<std::string, double> other_metrics{};
  bool is_stopped_early = false;
  /// Seconds since 1970; 0 where it has not come to that.
  double start_time = 0;
  double end_time = 0;
  /// Why it failed.
  std::string error_message{};
};

/// As a study keeps it: the fields of Cloud ML Engine's HyperparameterOutput.
std::string to_json(const Trial& trial);
/// Throws DataLoss for what to_json() has not written.
Trial trial_from_json(std::string_view json);

/// For the report of a failure: the first few names of a list, and how many more there are.
std::string listed(const std::vector<std::string>& names);

}  // namespace muster::tuning
