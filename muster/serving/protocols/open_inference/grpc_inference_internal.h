#pragma once

#include "muster/serving/core/service.h"
#include "muster/serving/grpc/grpc_transport.h"

namespace muster::serving {

inline constexpr const char* kInferenceService = "inference.GRPCInferenceService";

/// Adds the methods of the Open Inference Protocol's service of gRPC. Without `repository_control`,
/// models are neither loaded nor unloaded.
void add_inference_methods(Service& service, bool repository_control, GrpcMethods& methods);

}  // namespace muster::serving
