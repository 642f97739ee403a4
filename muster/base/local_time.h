#pragma once

#include <chrono>
#include <string>

namespace muster {

/// A moment in local time, by a format of strftime(): "2026-03-01T10:04:11".
std::string local_time(std::chrono::system_clock::time_point time,
                       const char* format = "%Y-%m-%dT%H:%M:%S");

}  // namespace muster
