#pragma once

#include <chrono>
#include <functional>

#include "muster/base/wait.h"

namespace muster {

class Session;

/// Asks `ready` every `period` until it says yes or the run is asked to stop: for things in other
/// processes, which cannot wake us. A long wait is reported like any other; `reason` must bear
/// being called from another thread. Throws DeadlineExceeded, with the reason, when the deadline
/// passes.
void poll_until(const Session& session, const Deadline& deadline, std::chrono::milliseconds period,
                const WaitReason& reason, const std::function<bool()>& ready);

}  // namespace muster
