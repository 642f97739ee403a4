#include "muster/base/host_memory.h"

#include <unistd.h>

#include <algorithm>

#include "muster/base/control_group.h"

namespace muster {

std::uint64_t memory_of_process() {
  const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0L));
  const auto page = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 0L));
  return std::min(pages * page, memory_limit().value_or(pages * page));
}

}  // namespace muster
