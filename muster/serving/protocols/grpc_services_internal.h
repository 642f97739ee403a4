#pragma once

#include <string>
#include <utility>

#include "muster/serving/core/service.h"
#include "muster/serving/grpc/grpc_transport.h"
#include "muster/serving/listener/access.h"
#include "muster/serving/protocols/message_of_internal.h"

/// Parts that services of gRPC are made of.
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

/// Methods of one service whose callers must have a role.
class GuardedMethods {
 public:
  /// `name` is that of the service: "inference.GRPCInferenceService".
  GuardedMethods(std::string name, Service& service, GrpcMethods& methods)
      : name_(std::move(name)), service_(service), methods_(methods) {}

  /// Adds one that answers when `act(context, request, response)` returns.
  template <typename Request, typename Response, typename Act>
  void add(const char* method, GrpcWork work, Role role, Act act) {
    methods_[path_of(method)] = message_method<Request, Response>(
        work, [&service = service_, role, act = std::move(act)](
                  const GrpcContext& context, const Request& request, Response& response) {
          check_access(service, context, role);
          act(context, request, response);
        });
  }
  /// Adds one as it is: it checks for itself who calls.
  void add(const char* method, GrpcMethod act) { methods_[path_of(method)] = std::move(act); }

 private:
  std::string path_of(const char* method) const { return "/" + name_ + "/" + method; }

  std::string name_;
  Service& service_;
  GrpcMethods& methods_;
};

}  // namespace muster::serving
