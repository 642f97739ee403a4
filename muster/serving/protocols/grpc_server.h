#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/wait.h"
#include "muster/serving/core/service.h"
#include "muster/serving/http/http_server.h"

namespace muster::serving {

struct GrpcServerOptions {
  /// Empty: all addresses of this host.
  std::string address{};
  /// 0: any that is free.
  std::uint16_t port = 0;
  /// Also listens on this Unix socket; empty: not.
  std::string socket_path{};
  TlsOptions tls{};
  /// Maximum size of a request, and of the tensors in it.
  std::size_t max_message_bytes = std::size_t{128} << 20;
  /// Maximum size of the messages of all unanswered calls together; more are refused.
  std::size_t max_total_bytes = std::size_t{1} << 30;
  /// Calls that are answered at one time, each by a thread that waits, and predictions that models
  /// share; zero: 64 per processor.
  std::size_t max_threads = 0;
  /// Answers with tensor_content instead of lists of values.
  bool raw_answers = false;
  /// Refuses calls of TensorFlow Serving for signatures that were made for another call.
  bool check_method_names = false;
  bool reflection = true;
  bool repository_control = true;
  /// gRPC's settings by name, such as grpc.max_connection_age_ms; a warning names those that have
  /// no meaning here.
  std::vector<std::pair<std::string, std::string>> channel_arguments{};
};

/// gRPC: TensorFlow Serving's PredictionService and ModelService, the Open Inference Protocol's
/// GRPCInferenceService, health and reflection.
class GrpcServer {
 public:
  /// Listens from now on, by the threads of the service's loop. Throws Unavailable when the port is
  /// taken, InvalidArgument for invalid certificates or addresses.
  GrpcServer(Service& service, const GrpcServerOptions& options);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  std::uint16_t port() const;
  /// Sets the health status of the whole server and of its services.
  void set_serving(bool serving);
  /// For connections from now on. Throws InvalidArgument for invalid certificates,
  /// FailedPrecondition when the server was started without any.
  void set_certificates(const TlsOptions& options);
  /// Takes no more connections, and sends GOAWAY to those there are. Returns at once.
  void begin_drain();
  /// The same, and waits for the calls in flight; closes what is left at the end of the time: false
  /// then.
  bool drain(const Deadline& deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
