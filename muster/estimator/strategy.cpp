#include "muster/estimator/strategy.h"

namespace muster {

std::optional<StepOutcome> Strategy::update(std::int64_t /*step*/, StepParts /*own*/,
                                            StepNotes& /*notes*/) {
  throw Internal("{} does not keep variables", describe());
}

}  // namespace muster
