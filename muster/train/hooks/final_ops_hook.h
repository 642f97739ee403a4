#pragma once

#include <functional>

#include "muster/train/engine/hook.h"

namespace muster {

/// Calls a function at the end of a run, unless an exception ended it.
class FinalOpsHook : public Hook {
 public:
  using FinalFn = std::function<void(Session&)>;

  /// Throws InvalidArgument for an empty function.
  explicit FinalOpsHook(FinalFn final_fn);

  void end(Session& session) override;

 private:
  FinalFn final_fn_;
};

}  // namespace muster
