#pragma once

#include "muster/base/wait.h"

namespace muster {

/// The deadline of what a thread computes for a request, for code that computes long and has no
/// caller to ask. Of the scopes of a thread that are inside each other the innermost counts.
class ComputeDeadline {
 public:
  explicit ComputeDeadline(const Deadline& deadline) : outer_(held()) { held() = deadline; }
  ~ComputeDeadline() { held() = outer_; }
  ComputeDeadline(const ComputeDeadline&) = delete;
  ComputeDeadline& operator=(const ComputeDeadline&) = delete;

  /// Never outside of all scopes.
  static Deadline current() { return held(); }

 private:
  static Deadline& held() {
    thread_local Deadline deadline = Deadline::never();
    return deadline;
  }

  const Deadline outer_;
};

}  // namespace muster
