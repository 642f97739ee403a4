#pragma once

#include <string_view>
#include <vector>

#include "muster/serving/grpc/grpc_transport.h"
#include "muster/serving/protocols/grpc_server.h"
#include "muster/serving/protocols/rest_paths_internal.h"

/// Protocols that the server speaks. One is a folder here with a file NAME/NAME_protocol.cpp, which
/// defines `Protocol NAME_protocol()`; CMakeLists.txt finds it, and makes the table of all.
namespace muster::serving {

/// Paths of REST that a protocol answers.
struct RestRoute {
  /// "/v2" takes "/v2" and the paths below it, "/v1/" only those below it. Where several routes
  /// take a path, the longest prefix decides.
  std::string_view prefix{};
  /// Answers a request, whose body is no longer compressed. What it throws is answered as an error.
  RestResult (*answer)(RestContext& context) = nullptr;
  /// Endings of paths to which a POST is a prediction: it is begun in the thread that has read it.
  std::vector<std::string_view> prediction_endings{};
  bool ignores_case = false;
};

/// A service of gRPC as reflection and health name it.
struct GrpcServiceName {
  /// "inference.GRPCInferenceService".
  const char* name = "";
  /// A further name in health, as TensorFlow Serving has it; null for none.
  const char* short_name = nullptr;
};

/// A protocol, over REST and gRPC. It may have one of the two alone.
struct Protocol {
  std::vector<RestRoute> rest{};
  std::vector<GrpcServiceName> grpc_services{};
  /// Adds the methods of these services, which the server holds no longer than `service`.
  void (*add_grpc_methods)(Service& service, const GrpcServerOptions& options,
                           GrpcMethods& methods) = nullptr;
};

/// Every protocol of the server.
const std::vector<Protocol>& all_protocols();

/// The route that takes a path; null where no protocol does.
const RestRoute* find_route(const std::vector<Protocol>& protocols, std::string_view path);

}  // namespace muster::serving
