#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "muster/server/grpc_calls_internal.h"

namespace muster::server {

/// grpc.health.v1.Health: gRPC's own has no place at which calls that are reset could be counted.
class GrpcHealth final : public GrpcService {
 public:
  explicit GrpcHealth(GrpcCalls& calls);
  ~GrpcHealth() override;

  /// The empty name is the whole server. A name that was never set is unknown.
  void set(const std::string& service, bool serving);

  /// A call of Watch.
  grpc::ServerGenericBidiReactor* watch(GrpcContext& context);

 private:
  class Watch;

  GrpcCalls& calls_;
  std::mutex mutex_{};
  std::map<std::string, bool, std::less<>> services_{};
  std::set<Watch*> watches_{};
};

}  // namespace muster::server
