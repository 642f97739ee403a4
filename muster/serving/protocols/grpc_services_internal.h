#pragma once

#include <utility>

#include "muster/serving/core/service.h"
#include "muster/serving/grpc/grpc_transport.h"
#include "muster/serving/listener/access.h"
#include "muster/serving/protocols/message_of_internal.h"

/// What services of gRPC are made of.
namespace muster::serving {

/// Throws what Access::check throws.
inline void check_access(const Service& service, const GrpcContext& context, Role role) {
  service.access().check(role, context.authorization, context.is_from_this_host);
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

}  // namespace muster::serving
