#include "muster/serving/protocols/rest_api.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/listener/event_loop.h"
#include "muster/serving/protocols/protocol_internal.h"

namespace muster::serving {
namespace {

// Smaller answers fit one packet anyway.
constexpr std::size_t kWorthCompressing = 1400;

HttpResponse plain(int status, std::string body) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body)};
}

void inflate_body(HttpRequest& request, InflateLimits limits, ByteBudget::Hold* hold) {
  const std::string_view encoding = request.header("Content-Encoding");
  if (encoding.empty() || equal_ignoring_case(encoding, "identity")) return;
  if (!accepts(encoding, "gzip") && !accepts(encoding, "deflate")) {
    throw Unimplemented("Content-Encoding {} is not supported: send gzip, deflate or none",
                        encoding.substr(0, 40));
  }
  limits.hold = hold;
  request.body = inflated(request.body, limits);
}

// Trying again would not help, so it is not said when.
HttpResponse too_large(const BodyTooLarge& error) {
  HttpResponse answer = error_answer_of(ErrorCode::kInvalidArgument, error.message());
  answer.status = 413;
  return answer;
}

void add_cors(HttpResponse& answer) {
  answer.headers.emplace_back("Access-Control-Allow-Origin", "*");
  answer.headers.emplace_back("Access-Control-Allow-Methods", "POST, GET");
  answer.headers.emplace_back("Access-Control-Allow-Headers",
                              "Content-Type, Authorization, Inference-Header-Content-Length, "
                              "X-Muster-Key");
  answer.headers.emplace_back("Access-Control-Expose-Headers", kVersionHeader);
}

HttpResponse preflight(const HttpRequest& request) {
  const std::string_view origin = request.header("Origin");
  const bool is_web =
      origin.find("http://") != origin.npos || origin.find("https://") != origin.npos;
  return {.status = is_web ? 200 : 400, .content_type = ""};
}

void compress(const HttpRequest& request, HttpResponse& answer) {
  if (answer.body.size() < kWorthCompressing || answer.content_type == "application/octet-stream" ||
      !accepts(request.header("Accept-Encoding"), "gzip")) {
    return;
  }
  answer.body = gzipped(answer.body);
  answer.headers.emplace_back("Content-Encoding", "gzip");
  answer.headers.emplace_back("Vary", "Accept-Encoding");
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

bool is_prediction(const HttpRequest& request) {
  if (request.method != "POST") return false;
  const std::string_view path = path_of(request.target);
  const RestRoute* const route = find_route(all_protocols(), path);
  return route != nullptr && std::ranges::any_of(route->prediction_endings, [&](auto ending) {
           return path.ends_with(ending);
         });
}

}  // namespace

HttpResponse json_answer(std::string body) { return {.body = std::move(body)}; }

Deadline RestContext::deadline() const {
  if (options.timeout.count() <= 0) return Deadline::never();
  return Deadline::at(request.received + options.timeout);
}

void RestContext::check(Role role) const {
  service.access().check(role, request.header("Authorization"), request.is_from_this_host);
}

VersionChoice RestContext::choice(const ModelPath& target) const {
  VersionChoice choice = target.version;
  choice.key = request.header(kKeyHeader);
  return choice;
}

std::optional<ModelPath> parse_model_path(std::string_view text, bool numeric_versions) {
  ModelPath path;
  const auto take_name = [&]() -> std::optional<std::string> {
    const auto end = text.find_first_of("/:");
    const std::string_view name = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end);
    if (name.empty()) return std::nullopt;
    return percent_decoded(name);
  };
  const auto model = take_name();
  if (!model) return std::nullopt;
  path.model = *model;
  for (const std::string_view kind : {"/versions/", "/labels/"}) {
    if (!text.starts_with(kind)) continue;
    text.remove_prefix(kind.size());
    const auto name = take_name();
    if (!name) return std::nullopt;
    path.version_text = *name;
    if (kind == "/labels/") {
      path.version.label = *name;
      break;
    }
    if (name->find_first_not_of("0123456789") != name->npos) {
      if (numeric_versions) return std::nullopt;
      break;
    }
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(name->data(), name->data() + name->size(), number);
    if (error != std::errc()) {
      throw InvalidArgument("Failed to convert version: {} to numeric.", *name);
    }
    path.version.number = number;
    break;
  }
  if (text.empty()) return path;
  path.separator = text.front();
  path.method = std::string(text.substr(1));
  if (path.method.empty()) return std::nullopt;
  return path;
}

RestApi::RestApi(Service& service, RestOptions options)
    : service_(service), options_(std::move(options)) {}

std::optional<std::string> RestApi::queue_of(const HttpRequest& request) {
  if (request.method == "GET" || request.method == "OPTIONS") return std::nullopt;
  constexpr std::string_view kModels = "/models/";
  std::string_view path = path_of(request.target);
  const auto found = path.find(kModels);
  if (found == path.npos) return std::string();
  path.remove_prefix(found + kModels.size());
  return std::string(path.substr(0, path.find_first_of("/:")));
}

HttpResponse RestApi::health(const HttpRequest& request, std::string_view path) {
  if (request.method != "GET") {
    return error_answer_of(ErrorCode::kInvalidArgument, "method not allowed: use GET");
  }
  if (path != "/readyz" || service_.ready()) return plain(200, "ok\n");
  HttpResponse answer = plain(503, service_.draining() ? "the server is stopping\n"
                                                       : "a model has no version that answers\n");
  answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

/// A request that is being answered.
struct RestApi::Exchange {
  HttpRequest request{};
  // The memory of the uncompressed body.
  std::optional<ByteBudget::Hold> hold{};
  // The prediction that the answer is made of, if the path leads to one.
  std::unique_ptr<RestPrediction> prediction{};
  HttpResponse answer{};
  // The way back of an exchange that no thread waits for.
  std::shared_ptr<HttpReply> reply{};

  // They refer to the exchange, which its caller keeps.
  Service::Prepare prepare() {
    return [this](Call& call) { prediction->prepare(call); };
  }
  Service::Steps steps() {
    return {.no_signature = [this](const ModelVersion&) { prediction->no_signature(); },
            .inputs =
                [this](const ModelVersion& version, const graph::SignatureDef& signature) {
                  return prediction->inputs(version, signature);
                },
            .answer =
                [this](const ModelVersion& version, BatchAnswer result) {
                  answer = prediction->answer(version, std::move(result));
                  answer.headers.emplace_back(kVersionHeader, std::to_string(version.number()));
                }};
  }
};

// Leaves an answer or a prediction.
void RestApi::route(Exchange& exchange) {
  HttpRequest& request = exchange.request;
  const std::string_view path = path_of(request.target);
  const auto answered = [&](HttpResponse answer) { exchange.answer = std::move(answer); };
  if (path == "/healthz" || path == "/livez" || path == "/readyz") {
    return answered(health(request, path));
  }
  RestContext context{service_, options_, request, path};
  if (path == "/metrics" && request.method == "GET") {
    context.check(Role::kPredict);
    answered(plain(200, service_.metrics_page()));
    exchange.answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return;
  }
  if (!options_.prometheus_path.empty() && path == options_.prometheus_path &&
      request.method == "GET") {
    context.check(Role::kPredict);
    return answered({.content_type = "text/plain", .body = service_.tensorflow_metrics_page()});
  }
  const RestRoute* const protocol = find_route(all_protocols(), path);
  if (protocol == nullptr) return answered(error_answer_of(ErrorCode::kNotFound, "Not Found"));
  if (request.method == "OPTIONS") return answered(preflight(request));
  if (options_.body_budget) exchange.hold.emplace(options_.body_budget);
  try {
    inflate_body(request, options_.inflate, exchange.hold ? &*exchange.hold : nullptr);
  } catch (const BodyTooLarge& error) {
    return answered(too_large(error));
  }
  RestResult result = protocol->answer(context);
  if (auto* const answer = std::get_if<HttpResponse>(&result)) return answered(std::move(*answer));
  exchange.prediction = std::move(std::get<std::unique_ptr<RestPrediction>>(result));
}

HttpResponse RestApi::answer_of(Exchange& exchange, const std::exception_ptr& failure) noexcept {
  const auto refusal = [](const Description& told) {
    return error_answer_of(told.code, told.message);
  };
  HttpResponse answer;
  try {
    if (failure) {
      answer = refusal(exchange.prediction ? exchange.prediction->failure(failure)
                                           : muster::describe(failure));
    } else {
      answer = std::move(exchange.answer);
      compress(exchange.request, answer);
    }
  } catch (...) {
    answer = refusal(muster::describe(std::current_exception()));
  }
  if (options_.cors) add_cors(answer);
  return answer;
}

void RestApi::run(Exchange& exchange) {
  route(exchange);
  if (!exchange.prediction) return;
  Call call = exchange.prediction->take_call();
  service_.run(call, exchange.prepare(), exchange.steps());
}

HttpResponse RestApi::handle(HttpRequest request) noexcept {
  Exchange exchange{std::move(request)};
  try {
    run(exchange);
  } catch (...) {
    return answer_of(exchange, std::current_exception());
  }
  return answer_of(exchange, nullptr);
}

bool RestApi::start(HttpRequest& request, const std::shared_ptr<HttpReply>& reply) noexcept {
  if (!is_prediction(request) || request.body.size() > kMostBytesInLoop ||
      !request.header("Content-Encoding").empty()) {
    return false;
  }
  auto exchange = std::make_unique<Exchange>();
  exchange->request = std::move(request);
  exchange->reply = reply;
  const auto end = [this](std::unique_ptr<Exchange> ended, const std::exception_ptr& failure) {
    HttpResponse answer = answer_of(*ended, failure);
    const auto to = std::move(ended->reply);
    ended.reset();
    to->reply(std::move(answer));
  };
  try {
    route(*exchange);
  } catch (...) {
    end(std::move(exchange), std::current_exception());
    return true;
  }
  if (!exchange->prediction) {
    end(std::move(exchange), nullptr);
    return true;
  }
  // The callback below takes it back: a std::function would have to copy a std::unique_ptr.
  Exchange* const begun = exchange.release();
  service_.start(begun->prediction->take_call(), begun->prepare(), begun->steps(),
                 [end, begun](const std::exception_ptr& failure) {
                   end(std::unique_ptr<Exchange>(begun), failure);
                 });
  return true;
}

}  // namespace muster::serving
