#pragma once

#include "muster/engine/hook.h"

namespace muster {

/// Ends a run whose loss is NaN: with an error, or, told not to fail, with a warning and an orderly
/// stop. It asks for the loss after every step, which on a GPU waits for the device.
///
/// In training NanPolicy acts earlier, before the bad step changes the variables; this hook is for
/// evaluation, and for those who want a run that ends in order.
class NanHook : public Hook {
 public:
  explicit NanHook(bool fail_on_nan_loss = true) : fail_on_nan_loss_(fail_on_nan_loss) {}

  /// Throws FailedPrecondition, naming the step.
  void after_run(Session& session) override;

 private:
  bool fail_on_nan_loss_;
};

}  // namespace muster
