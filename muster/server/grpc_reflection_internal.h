#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/server/grpc_calls_internal.h"

namespace muster::server {

constexpr std::string_view kReflectionMethod =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// The bytes of the answer to one request of grpc.reflection.v1alpha.ServerReflection: names of
/// services, or files of the messages that are linked into the program, each with those it needs.
/// Throws DataLoss for bytes that are no message.
std::string answer_reflection(std::string_view request, const std::vector<std::string>& services);

/// A call of ServerReflectionInfo. `services` outlives it.
grpc::ServerGenericBidiReactor* reflection_stream(GrpcCalls& calls, GrpcContext& context,
                                                  const std::vector<std::string>& services);

}  // namespace muster::server
