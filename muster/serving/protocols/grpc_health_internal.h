#pragma once

#include <map>
#include <memory>
#include <string>

#include "muster/serving/grpc/grpc_transport.h"

namespace muster::serving {

/// grpc.health.v1.Health: what services answer, asked once or watched. Any thread may call.
class GrpcHealth {
 public:
  GrpcHealth();
  ~GrpcHealth();
  GrpcHealth(const GrpcHealth&) = delete;
  GrpcHealth& operator=(const GrpcHealth&) = delete;

  /// The empty name is the whole server. A name that was never set is unknown.
  void set(const std::string& service, bool serving);
  /// Check and Watch. The methods outlive this object.
  void add_methods(GrpcMethods& methods) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::serving
