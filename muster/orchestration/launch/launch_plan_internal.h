#pragma once

#include <optional>
#include <vector>

#include "muster/orchestration/launch/launcher.h"

namespace muster::launch {

/// Throws InvalidArgument for options that make no launch.
void check_launch(const LaunchOptions& options);

/// The ports that a launch takes; none where the options say which.
std::optional<ReservedPorts> reserve_ports(const LaunchOptions& options);

/// Whether the user has set a secret, which is that of the tasks too.
bool has_own_secret();

/// The tasks, with their environment and processors, except for the secret.
std::vector<LaunchTask> tasks_of(const LaunchOptions& options,
                                 const std::optional<ReservedPorts>& ports);

}  // namespace muster::launch
