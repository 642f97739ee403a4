#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/serving/load/knee_search.h"
#include "muster/serving/load/latency_plot.h"
#include "muster/serving/load/load_run.h"

namespace muster::serving {

/// A load at one rate, or with one number of requests in flight.
struct LoadStep {
  std::optional<double> rate{};
  std::size_t concurrency = 0;
  LoadMeasurements measured{};
};

struct LoadReport {
  std::string protocol{};
  std::string server{};
  std::vector<std::string> models{};
  ArrivalPattern arrivals = ArrivalPattern::kPoisson;
  std::size_t threads = 1;
  std::vector<LoadStep> steps{};
  /// Bounds that were asked for.
  std::optional<KneeBounds> bounds{};
  /// A search for the knee, and what it has found.
  bool searched_knee = false;
  std::optional<double> knee{};
};

/// The outcome of a step, for bounds.
RateOutcome outcome_of(const LoadStep& step);

/// Text for people: a row per step and model, then errors by kind.
std::string load_table(const LoadReport& report);
/// One JSON object for programs.
std::string load_json(const LoadReport& report);
LatencyPlot load_plot(const LoadReport& report);

}  // namespace muster::serving
