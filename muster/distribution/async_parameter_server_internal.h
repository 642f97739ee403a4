#pragma once

#include <memory>

#include "muster/distribution/parameter_server.h"

namespace muster::internal {

/// make_parameter_server() where RunConfig::sync is false: this task's gradients become an update
/// of their own, and the task goes on with what the servers have then.
std::unique_ptr<Strategy> make_async_parameter_server(const RunConfig& config,
                                                      const ParameterServerOptions& options);

}  // namespace muster::internal
