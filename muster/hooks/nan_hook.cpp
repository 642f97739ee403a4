#include "muster/hooks/stop_hooks.h"

#include <cmath>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster {

void NanHook::after_run(Session& session) {
  if (!std::isnan(session.loss())) return;
  if (fail_on_nan_loss_) {
    throw FailedPrecondition(
        "NaN loss during training: step={}; lower the learning rate, clip the gradients, or look "
        "for bad values in the input",
        session.global_step());
  }
  log::warning("model diverged with loss = NaN: step={}", session.global_step());
  session.request_stop("the loss is NaN");
}

}  // namespace muster
