#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/server/access.h"
#include "muster/server/grpc_transport_internal.h"
#include "muster/server/service.h"

/// What services of gRPC are made of.
namespace muster::server {

/// Throws what Access::check throws.
inline void check_access(const Service& service, const GrpcContext& context, Role role) {
  service.access().check(role, context.authorization, context.is_from_this_host);
}

/// Throws Internal for bytes that are no such message, as gRPC's own servers answer.
template <typename Message>
Message message_of(std::string_view bytes) {
  Message message;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Internal("the request cannot be read as a {}", message.GetTypeName());
  }
  return message;
}

/// Answers when `act(context, request, response)` returns.
template <typename Request, typename Response, typename Act>
GrpcMethod message_method(GrpcWork work, Act act) {
  return {.work = work, .handle = [act = std::move(act)](const GrpcCallPtr& call) {
            const auto request = message_of<Request>(call->request());
            Response response;
            act(call->context(), request, response);
            call->answer(response.SerializeAsString());
          }};
}

/// The Open Inference Protocol's GRPCInferenceService.
void add_inference_methods(Service& service, bool repository_control, GrpcMethods& methods);

}  // namespace muster::server
