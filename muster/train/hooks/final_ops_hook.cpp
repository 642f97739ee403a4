#include "muster/train/hooks/final_ops_hook.h"

#include <utility>

#include "muster/base/error.h"

namespace muster {

FinalOpsHook::FinalOpsHook(FinalFn final_fn) : final_fn_(std::move(final_fn)) {
  if (!final_fn_) throw InvalidArgument("FinalOpsHook: the function is empty");
}

void FinalOpsHook::end(Session& session) { final_fn_(session); }

}  // namespace muster
