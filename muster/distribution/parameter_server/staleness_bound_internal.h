#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::internal {

/// Keeps the values that gradients are computed with from growing older than this many updates, by
/// letting pushes wait.
class StalenessBound {
 public:
  /// `asked` 0: no bound. Tasks that get values at the same time push one after the other, so the
  /// last of n has values that are n - 1 updates old, and no bound is below that.
  StalenessBound(std::int64_t asked, std::size_t tasks);

  /// 0 for none.
  std::int64_t updates() const { return updates_; }

  /// Whether a push may be applied as update number `made` + 1. `pulled` has, for each other task
  /// that will push again, the number of updates in its values: afterwards there must be a turn for
  /// each of them before its values are too old. The push of the task with the oldest values may
  /// always be applied, so some task always can continue.
  bool allows(std::int64_t made, std::span<const std::int64_t> pulled) const;

 private:
  std::int64_t updates_;
};

}  // namespace muster::internal
