#include <algorithm>

#include "muster/distribution/parameter_server/staleness_bound_internal.h"

namespace muster::internal {

StalenessBound::StalenessBound(std::int64_t asked, std::size_t tasks)
    : updates_(asked == 0 ? 0 : std::max(asked, static_cast<std::int64_t>(tasks) - 1)) {}

bool StalenessBound::allows(std::int64_t made, std::span<const std::int64_t> pulled) const {
  if (updates_ == 0) return true;
  std::vector<std::int64_t> oldest_first(pulled.begin(), pulled.end());
  std::ranges::sort(oldest_first);
  // When their turns come in this order, each must still be in time.
  std::int64_t before = made + 1;
  for (const std::int64_t values : oldest_first) {
    if (before - values > updates_) return false;
    ++before;
  }
  return true;
}

}  // namespace muster::internal
