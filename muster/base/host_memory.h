#pragma once

#include <cstdint>

namespace muster {

/// The bytes of memory that this process may use: those of the host, or fewer where a control group
/// sets a limit.
std::uint64_t memory_of_process();

}  // namespace muster
