#include "muster/train/estimator/specs.h"

#include <set>

#include "muster/base/error.h"

namespace muster {

void TrainSpec::check() const {
  if (!input_fn) throw InvalidArgument("TrainSpec: input_fn is not set");
  if (max_steps && *max_steps <= 0) {
    throw InvalidArgument("TrainSpec: max_steps must be positive: {}", *max_steps);
  }
  if (max_epochs && *max_epochs <= 0) {
    throw InvalidArgument("TrainSpec: max_epochs must be positive: {}", *max_epochs);
  }
}

void EvalSpec::check() const {
  if (!input_fn) throw InvalidArgument("EvalSpec: input_fn is not set");
  if (steps && *steps <= 0) throw InvalidArgument("EvalSpec: steps must be positive: {}", *steps);
  if (every_steps && *every_steps <= 0) {
    throw InvalidArgument("EvalSpec: every_steps must be positive: {}", *every_steps);
  }
  if (start_delay_secs.count() < 0) {
    throw InvalidArgument("EvalSpec: start_delay_secs must not be negative: {}",
                          start_delay_secs.count());
  }
  if (throttle_secs.count() < 0) {
    throw InvalidArgument("EvalSpec: throttle_secs must not be negative: {}",
                          throttle_secs.count());
  }
  std::set<std::string> names;
  for (const auto& exporter : exporters) {
    if (exporter == nullptr || exporter->name().empty()) {
      throw InvalidArgument("EvalSpec: every exporter needs a name");
    }
    if (!names.insert(exporter->name()).second) {
      throw InvalidArgument("EvalSpec: two exporters are named {}", exporter->name());
    }
  }
}

}  // namespace muster
