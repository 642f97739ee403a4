#pragma once

#include <sys/types.h>

#include <chrono>

namespace muster::process {

/// A process beside the launcher that ends the tasks when the launcher is gone, however it went:
/// kill -9 too. The kernel sends SIGTERM to each task itself then (see start_process()); the guard
/// sees to what a task left in its process group, and kills what has not ended after the grace.
class OrphanGuard {
 public:
  explicit OrphanGuard(std::chrono::milliseconds grace);
  /// The guard ends too. Tasks that it still watches are taken for orphans.
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

  /// Process groups, by the process that leads them.
  void watch(pid_t group) const { tell(group); }
  void forget(pid_t group) const { tell(-group); }

 private:
  void tell(pid_t group) const;

  int pipe_ = -1;
  pid_t process_ = -1;
};

}  // namespace muster::process
