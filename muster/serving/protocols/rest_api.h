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
  /// What a request may take that names no time of its own; zero: any time.
  std::chrono::milliseconds timeout{30'000};
  /// Adds the headers that let pages of other sites call.
  bool cors = false;
  /// Refuses calls of TensorFlow Serving for signatures that were made for another call.
  bool check_method_names = false;
  /// Where TensorFlow Serving's page for Prometheus is; empty: nowhere.
  std::string prometheus_path = "/monitoring/prometheus/metrics";
  InflateLimits inflate{};
  /// What uncompressed bodies are taken from, if anything.
  std::shared_ptr<ByteBudget> body_budget{};
  /// Whether load and unload of the Open Inference Protocol are offered.
  bool repository_control = true;
  /// The models that Cloud ML Engine's calls list and change; none: there are no such calls.
  std::shared_ptr<serving::ModelCatalog> catalog{};
};

/// The paths of REST, of all protocols that speak it:
///   /v1/models/...            TensorFlow Serving
///   /v1/projects/...          Cloud ML Engine: predict, models and versions
///   /v2/...                   Open Inference Protocol
///   /healthz /livez /readyz /metrics
/// All functions may be called from any thread.
class RestApi {
 public:
  RestApi(Service& service, RestOptions options);

  /// Never throws: what goes wrong is the answer.
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
