#pragma once

#include <functional>
#include <utility>

#include "muster/export/serving_input.h"
#include "muster/train/engine/hook.h"

namespace muster {

class Estimator;

/// When training begins, writes what the model computes in prediction, with its ways in, to
/// model_dir/graph.pb, and as a graph to the event file, so that TensorBoard shows it and `muster
/// export` needs the program no more. train_and_evaluate() does so by itself; give this one to
/// Estimator::train(). A run that continues with the same graph does not write it again. A model
/// that cannot be traced costs a line in the log. Only on the chief.
class GraphHook : public Hook {
 public:
  /// The estimator must outlive it. `make_input` is called when training begins.
  GraphHook(const Estimator& estimator, std::function<ServingInput()> make_input)
      : estimator_(estimator), make_input_(std::move(make_input)) {}
  GraphHook(const Estimator& estimator, ServingInput input)
      : GraphHook(estimator, [input = std::move(input)] { return input; }) {}

  void begin(Session& session) override;

 private:
  void write(Session& session) const;

  const Estimator& estimator_;
  std::function<ServingInput()> make_input_;
};

}  // namespace muster
