#pragma once

#include <string>

namespace muster::launch {

/// The variable that hands a run's secret to its tasks: other users cannot read the environment of
/// a process, as they can its arguments.
inline constexpr const char* kSecretVariable = "MUSTER_SECRET";

/// 256 random bits, as 64 hexadecimal digits.
std::string draw_secret();

}  // namespace muster::launch
