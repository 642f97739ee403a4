#include "muster/train/engine/train_options.h"

#include "muster/nn/optim/update.h"

namespace muster {

UpdateRules EstimatorOptions::update_rules() const {
  return {.weight_decay = weight_decay,
          .clip = clip,
          .checks_gradients = nan_policy.action != NanPolicy::Action::kStop};
}

}  // namespace muster
