#pragma once

#include <string>

#include "muster/estimator/estimator.h"
#include "muster/estimator/specs.h"

namespace muster::internal {

/// When training begins, writes what the model computes in prediction, with its ways in, to
/// model_dir/graph.pb, and as a graph to the event file. The ways in are those of the first
/// exporter; without one the raw features of the model's columns, or tensors as the evaluation's
/// first batch has them. A model that cannot be traced costs a line in the log. Only on the chief.
class InferenceGraphHook : public Hook {
 public:
  /// Both must outlive it.
  InferenceGraphHook(const Estimator& estimator, const EvalSpec& spec)
      : estimator_(estimator), spec_(spec) {}

  void begin(Session& session) override;

 private:
  void write(Session& session) const;

  const Estimator& estimator_;
  const EvalSpec& spec_;
};

}  // namespace muster::internal
