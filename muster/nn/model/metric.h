#pragma once

#include <memory>
#include <string_view>

#include "muster/nn/model/metric_state.h"

namespace muster {

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
