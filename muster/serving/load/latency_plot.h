#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster::serving {

/// Latencies at a rate.
struct PlotPoint {
  double rate = 0;
  double p50_seconds = 0;
  double p90_seconds = 0;
  double p99_seconds = 0;
  double p999_seconds = 0;
  /// Drawn hollow: a bound was passed, or requests failed.
  bool is_bad = false;
};

struct LatencyPlot {
  std::string title{};
  /// Label of the rates.
  std::string rates = "requests/s";
  std::vector<PlotPoint> points{};
  /// Drawn as a line from top to bottom, and one from left to right.
  std::optional<double> knee{};
  std::optional<double> most_p99_seconds{};
};

/// A picture of latency over rate in SVG: a line per percentile, the latency in powers of ten.
std::string latency_svg(const LatencyPlot& plot);

}  // namespace muster::serving
