#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/core/service.h"
#include "muster/serving/grpc/grpc_transport.h"

namespace muster::serving {

/// The bytes of the answer to one request of grpc.reflection.v1alpha.ServerReflection: names of
/// services, or files of the messages that are linked into the program, each with those it needs.
/// Throws DataLoss for bytes that are no message.
std::string answer_reflection(std::string_view request, const std::vector<std::string>& services);

/// ServerReflectionInfo, which tells callers that may ask for predictions of these services.
void add_reflection_methods(const Service& service, std::vector<std::string> services,
                            GrpcMethods& methods);

}  // namespace muster::serving
