#include "muster/train/engine/run_progress.h"

#include <algorithm>

namespace muster {

void RunProgress::begin(std::optional<std::int64_t> end_of_learning) {
  first_step_ = step_;
  if (!is_end_given_) last_step_ = last_step_from(step_);
  if (end_of_learning)
    last_step_ = std::min(last_step_.value_or(*end_of_learning), *end_of_learning);
}

}  // namespace muster
