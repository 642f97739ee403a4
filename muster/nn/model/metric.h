#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/nn/model/metric_state.h"

namespace muster {

/// Numbers behind a metric that a table shows: a confusion matrix, a calibration curve.
struct MetricTable {
  /// Head of the first column, which has the names of the rows.
  std::string corner{};
  std::vector<std::string> rows{};
  std::vector<std::string> columns{};
  /// Row by row.
  std::vector<double> values{};
  /// Whether a picture shows the values too, each as a share of its row's sum.
  bool is_heat_map = false;

  double at(std::size_t row, std::size_t column) const {
    return values[row * columns.size() + column];
  }
};

/// A number over many batches. Its state is plain numbers that merge exactly: however the batches
/// are spread over workers and in whatever order their states are merged, compute() gives the same
/// bits. Belongs to one thread at a time.
class Metric {
 public:
  virtual ~Metric() = default;

  /// Kind of the metric in serialised states: "mean", "auc".
  virtual std::string_view kind() const = 0;
  /// The value so far; 0 before anything was seen.
  virtual double compute() const = 0;
  /// The numbers behind it, which an evaluation writes as text and picture; nothing for most.
  virtual std::optional<MetricTable> table() const { return std::nullopt; }
  /// Adds what `other` has seen. Throws InvalidArgument when it is of another kind or was made with
  /// other options.
  virtual void merge(const Metric& other) = 0;
  virtual void reset() = 0;
  virtual std::unique_ptr<Metric> clone() const = 0;
  /// Options and state.
  virtual void write(StateWriter& out) const = 0;
  /// Takes the options and state that write() wrote. Throws DataLoss.
  virtual void read(StateReader& in) = 0;
};

}  // namespace muster
