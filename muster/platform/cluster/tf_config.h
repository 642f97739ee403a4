#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "muster/platform/cluster/task_environment.h"

namespace muster {

/// Longer texts are refused; Linux hands a process no longer variable than 128 KiB.
inline constexpr std::size_t kMaxTfConfigBytes = std::size_t{1} << 20;

/// Turns the text of TF_CONFIG into values. Empty text and "{}" mean one process alone.
///
/// Throws UsageError. Bad JSON: with the byte and the last key before it. A wrong type or value:
/// with its path (`cluster.worker[1]`), what it was and what is allowed.
TaskEnvironment parse_tf_config(std::string_view json);

/// Cluster, task and trial as TF_CONFIG writes them, before any rule about roles. Without a task it
/// is master:0, as TensorLayer has it. Throws as parse_tf_config() does.
struct TfConfigTask {
  ClusterSpec cluster{};
  TaskSpec task{};
  std::optional<std::string> trial{};
};
TfConfigTask read_tf_config_task(std::string_view json);

}  // namespace muster
