#include "muster/platform/stores/post_json.h"

#include <chrono>

#include "muster/base/error.h"
#include "muster/platform/stores/http_client.h"

namespace muster::stores {

void post_json(const std::string& url, const std::string& body) {
  const std::string host = parse_url(url).host;
  // Paths of webhooks are secrets.
  const std::string shown = host.substr(host.find('@') == host.npos ? 0 : host.find('@') + 1);
  const HttpRequest request{.method = "POST",
                            .url = url,
                            .headers = {{"Content-Type", "application/json"}},
                            .body = body,
                            .most_answer_bytes = std::uint64_t{1} << 20,
                            .timeout = std::chrono::seconds(10)};
  HttpClient client;
  const HttpResponse answer = client.send("posting to " + shown, [&](int) { return request; },
                                          {.most_tries = 4, .most_time = std::chrono::seconds(30)});
  if (!answer.is_success()) throw Unavailable("{} answers with status {}", shown, answer.status);
}

}  // namespace muster::stores
