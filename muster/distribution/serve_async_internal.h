#pragma once

#include "muster/distribution/parameter_server.h"

namespace muster::internal {

/// serve_parameters() where RunConfig::sync is false: every push is applied as it comes, and
/// answered with the values that it made.
void serve_async(const EstimatorOptions& estimator, const RunConfig& config,
                 const ParameterServerOptions& options);

}  // namespace muster::internal
