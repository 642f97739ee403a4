#pragma once

#include <cstddef>
#include <string_view>

#include "muster/cluster/task_environment.h"

namespace muster {

/// Longer texts are refused; Linux hands a process no longer variable than 128 KiB.
inline constexpr std::size_t kMaxTfConfigBytes = std::size_t{1} << 20;

/// Turns the text of TF_CONFIG into values. Empty text and "{}" mean one process alone.
///
/// Throws UsageError. Bad JSON: with the byte and the last key before it. A wrong type or value:
/// with its path (`cluster.worker[1]`), what it was and what is allowed.
TaskEnvironment parse_tf_config(std::string_view json);

/// The same of this process's environment variable TF_CONFIG. Logs the warnings.
TaskEnvironment task_environment_from_env();

}  // namespace muster
