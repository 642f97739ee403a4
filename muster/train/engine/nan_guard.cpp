#include "muster/train/engine/nan_guard.h"

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/train/engine/not_finite.h"

namespace muster {

void NanGuard::inspect(std::span<const std::optional<Batch>> batches) {
  bad_input_ = first_not_finite(batches);
}

void NanGuard::stop_for(std::string_view what, std::int64_t step) const {
  throw Aborted("the {} of step {} is not finite{}, or set a nan_policy that goes on{}", what, step,
                cause(),
                policy_.action == NanPolicy::Action::kStop
                    ? ""
                    : fmt::format(" ({} such steps are allowed)", policy_.limit));
}

void NanGuard::stop_if_none_allowed(std::string_view what, std::int64_t step) const {
  if (policy_.action == NanPolicy::Action::kStop) stop_for(what, step);
}

// Possible causes of a value that is not finite, and remedies.
std::string NanGuard::cause() const {
  if (!bad_input_.empty()) return fmt::format(", since {}; mend the input", bad_input_);
  if (steps_ == Steps::kOnDevice) {
    return "; look for bad values in the input, lower the learning rate, clip the gradients";
  }
  return fmt::format(", and all numbers of {} are: lower the learning rate, clip the gradients",
                     steps_ == Steps::kOnHostOfSeveral
                         ? "this task's input (other tasks tell of theirs)"
                         : "its input");
}

NanPolicy::Action NanGuard::count(std::string_view what, std::int64_t step) {
  const std::string since = bad_input_.empty() ? "" : ", since " + bad_input_;
  ++bad_steps_;
  stop_if_none_allowed(what, step);
  if (bad_steps_ > policy_.limit) stop_for(what, step);
  if (policy_.action == NanPolicy::Action::kRollBack) {
    log::warning(
        "the {} of step {} is not finite: going back to the last checkpoint, and leaving its batch "
        "out ({} of {}){}",
        what, step, bad_steps_, policy_.limit, since);
  } else {
    log::warning("the {} of step {} is not finite: its batch is skipped ({} of {}){}", what, step,
                 bad_steps_, policy_.limit, since);
  }
  return policy_.action;
}

}  // namespace muster
