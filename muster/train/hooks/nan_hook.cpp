#include "muster/train/hooks/stop_hooks.h"

#include <cmath>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster {

void NanHook::after_run(Session& session) {
  if (!std::isnan(session.loss())) return;
  if (fail_on_nan_loss_) {
    throw FailedPrecondition(
        "NaN loss during training: step={}; look for bad values in the input, lower the learning "
        "rate, or clip the gradients",
        session.global_step());
  }
  log::warning("model diverged with loss = NaN: step={}", session.global_step());
  session.request_stop("the loss is NaN");
}

}  // namespace muster
