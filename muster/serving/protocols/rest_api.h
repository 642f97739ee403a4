#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "muster/serving/codec/model_folder.h"
#include "muster/serving/core/service.h"
#include "muster/serving/http/http_message.h"
#include "muster/serving/listener/byte_budget.h"

namespace muster::serving {

struct RestOptions {
  /// The time limit of a request that names none of its own; zero: none.
  std::chrono::milliseconds timeout{30'000};
  /// Adds the headers that let pages of other sites call.
  bool cors = false;
  /// Refuses calls of TensorFlow Serving for signatures that were made for another call.
  bool check_method_names = false;
  /// The path of TensorFlow Serving's page for Prometheus; empty: there is none.
  std::string prometheus_path = "/monitoring/prometheus/metrics";
  InflateLimits inflate{};
  /// The memory that uncompressed bodies are counted in, if they are to be.
  std::shared_ptr<ByteBudget> body_budget{};
  /// Whether load and unload of the Open Inference Protocol are offered.
  bool repository_control = true;
  /// The models that Cloud ML Engine's calls list and change; none: there are no such calls.
  std::shared_ptr<serving::ModelCatalog> catalog{};
};

/// The REST server without its sockets: the paths of all protocols (protocol_internal.h), and
/// /healthz, /livez, /readyz and /metrics. All functions may be called from any thread.
class RestApi {
 public:
  RestApi(Service& service, RestOptions options);

  /// Answers a request, failures included.
  HttpResponse handle(HttpRequest request) noexcept;
  /// Begins to answer a prediction, without waiting for it. False, with the request as it was, for
  /// another request, and for one whose body takes long to read.
  bool start(HttpRequest& request, const std::shared_ptr<HttpReply>& reply) noexcept;
  /// The model, as the path has it, of a request that may take as long as that model does; nothing
  /// for a request that is answered at once.
  static std::optional<std::string> queue_of(const HttpRequest& request);

 private:
  struct Exchange;

  void route(Exchange& exchange);
  void run(Exchange& exchange);
  HttpResponse answer_of(Exchange& exchange, const std::exception_ptr& failure) noexcept;
  HttpResponse health(const HttpRequest& request, std::string_view path);

  Service& service_;
  RestOptions options_;
};

}  // namespace muster::serving
