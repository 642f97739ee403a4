#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// Folders of the control groups that limit this process by `controller` ("cpu", "memory"): its own
/// first, then those around it, of version 1 and of version 2. Empty where none is mounted. `proc`
/// is /proc/self, or what a test has in its place.
std::vector<Path> control_group_folders(std::string_view controller,
                                        const Path& proc = "/proc/self");

/// Processor time that the control groups leave to this process, in processors: 1.5 is one and a
/// half. The smallest quota of all groups; nothing when no group sets one.
std::optional<double> processor_quota(const Path& proc = "/proc/self");

/// The same for memory, in bytes.
std::optional<std::uint64_t> memory_limit(const Path& proc = "/proc/self");

}  // namespace muster
