#include <fmt/format.h>

#include <boost/beast/http/status.hpp>
#include <iterator>
#include <string_view>

#include "muster/base/log.h"
#include "muster/serving/http/http_exchange_internal.h"

namespace muster::serving {
namespace {

constexpr std::size_t kUsualHeaderBytes = 128;

}  // namespace

std::string response_header(std::string room, const HttpResponse& answer,
                            const HttpExchange& exchange) {
  namespace http = boost::beast::http;
  std::string header = std::move(room);
  header.clear();  // It may hold an interim answer, which was sent.
  header.reserve(kUsualHeaderBytes +
                 (answer.body.size() <= kJoinedAnswerBytes ? answer.body.size() : 0));
  const auto reason =
      http::obsolete_reason(http::int_to_status(static_cast<unsigned>(answer.status)));
  fmt::format_to(std::back_inserter(header), "HTTP/1.{} {} ", exchange.version % 10, answer.status);
  header.append(reason.data(), reason.size()).append("\r\n");
  const auto add = [&](std::string_view name, std::string_view value) {
    header.append(name).append(": ").append(value).append("\r\n");
  };
  if (!answer.content_type.empty()) add("Content-Type", answer.content_type);
  for (const auto& [name, value] : answer.headers) add(name, value);
  if (exchange.keep_alive && exchange.version < 11) add("Connection", "keep-alive");
  if (!exchange.keep_alive && exchange.version >= 11) add("Connection", "close");
  // Also where there is nothing: a client would wait for it.
  if (!answer.stream) add("Content-Length", fmt::format_int(answer.body.size()).c_str());
  header += "\r\n";
  return header;
}

void log_exchange(HttpExchange& exchange, const HttpResponse& answer, const std::string& peer) {
  if (exchange.logged.empty()) return;
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - exchange.received;
  log::info("request {} status={} bytes={} ms={:.3f} peer={}", exchange.logged, answer.status,
            answer.body.size(), took.count(), peer);
  exchange.logged.clear();
}

}  // namespace muster::serving
