// Bugs that are planted into a copy of the tree, all at once: each sleeps until MUSTER_PLANTED_BUG
// names it.
#pragma once

#include <cstdlib>
#include <string_view>

namespace muster {

inline bool planted(std::string_view bug) {
  static const char* const chosen = std::getenv("MUSTER_PLANTED_BUG");
  return chosen != nullptr && bug == chosen;
}

}  // namespace muster
