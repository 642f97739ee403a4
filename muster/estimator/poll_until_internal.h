#pragma once

#include <chrono>
#include <functional>

#include "muster/base/wait.h"

namespace muster {

/// Asks `ready` every `period` until it says yes: for things in other processes, which cannot wake
/// us. A long wait is reported like any other; `reason` must bear being called from another thread.
/// Throws DeadlineExceeded, with the reason, when the deadline passes.
void poll_until(const Deadline& deadline, std::chrono::milliseconds period,
                const WaitReason& reason, const std::function<bool()>& ready);

}  // namespace muster
